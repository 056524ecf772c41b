//! Chains of selections, and which of them are slots.

use alloc::sync::Arc;

use lazaret_model::{QualifiedName, Text};

use super::{
    planned::Planned,
    planner::Planner,
    step::{Attr, Base, How, Op, OpId, Optional, Slot, SlotRead, Step},
};
use crate::eval::value::{Side, Value};

/// The domain of a slot, and the path to it.
struct Domain<'a> {
    side: Side,
    domain: &'a Text,
    via: Option<u32>,
    rest: &'a [Step],
}

impl Planner<'_, '_> {
    /// The step for a chain; slots and fields of the device where it is one.
    pub(super) fn seal(&mut self, attr: Attr, test: bool) -> OpId {
        let op = match self.as_slot(&attr).or_else(|| field_of_device(&attr)) {
            Some(op) => op,
            None => {
                self.note_reads(&attr);
                if test { Op::Has(attr) } else { Op::Attr(attr) }
            }
        };
        self.reads.driver |= matches!(op, Op::Driver);
        self.reads.allow_multiple |= matches!(op, Op::AllowMultiple);
        self.add(op)
    }

    fn as_slot(&mut self, attr: &Attr) -> Option<Op> {
        let Domain { side, domain, via, rest } = self.domain_of(attr)?;
        let [step] = rest else { return None };
        let (key, how) = match step {
            Step::Key(key, false) => (key, How::Value),
            Step::Key(key, true) => (key, How::Optional),
            Step::Test(key) => (key, How::Has),
            Step::Attr(..) | Step::Op(..) => return None,
        };
        let Value::Text(id) = key else { return None };
        let name = QualifiedName { domain: domain.clone(), id: id.to_text() };
        // The chain itself counts one, and so does each step; a test makes up for the chain.
        let steps = if via.is_some() { 1 } else { 3 };
        let cost = steps + u64::from(how != How::Has);
        Some(self.slot(side, name, how, cost, via))
    }

    /// `"id" in <domain>`, if `attr` is a domain.
    pub(super) fn in_domain(&mut self, key: &Text, attr: &Attr) -> Option<Op> {
        if let (Base::Device, [Step::Key(Value::Text(side), false)]) = (&attr.base, &*attr.path) {
            let side = side_named(side)?;
            self.note_whole(side);
            return Some(Op::DomainIn(side, key.clone()));
        }
        let Domain { side, domain, via, rest } = self.domain_of(attr)?;
        if !rest.is_empty() {
            return None;
        }
        let name = QualifiedName { domain: domain.clone(), id: key.clone() };
        let cost = if via.is_some() { 2 } else { 4 };
        Some(self.slot(side, name, How::In, cost, via))
    }

    fn slot(&mut self, side: Side, name: QualifiedName, how: How, cost: u64, via: Option<u32>) -> Op {
        let reads = match side {
            Side::Attributes => &mut self.reads.attributes,
            Side::Capacity => &mut self.reads.capacity,
        };
        if !reads.contains(&name) {
            reads.push(name.clone());
        }
        let wanted = Slot { side, name };
        let known = self.slots.iter().position(|slot| *slot == wanted);
        let at = known.unwrap_or_else(|| {
            self.slots.push(wanted);
            self.slots.len() - 1
        });
        Op::Slot(SlotRead { slot: u32::try_from(at).unwrap_or(u32::MAX), how, cost, via })
    }

    /// The domain that a chain starts with, written out or through a variable that stands for one.
    fn domain_of<'a>(&'a self, attr: &'a Attr) -> Option<Domain<'a>> {
        match (&attr.base, &*attr.path) {
            (
                Base::Device,
                [Step::Key(Value::Text(side), false), Step::Key(Value::Text(domain), false), rest @ ..],
            ) => {
                let side = side_named(side)?;
                let crate::eval::value::Str::Shared(domain) = domain else { return None };
                Some(Domain { side, domain, via: None, rest })
            }
            (Base::Local(local), rest) => {
                let (side, domain) = self.domains.get(local)?;
                Some(Domain { side: *side, domain, via: Some(*local), rest })
            }
            _ => None,
        }
    }

    /// The domain that a whole chain is, for a variable to stand for.
    pub(super) fn as_domain(&self, attr: &Attr) -> Option<(Side, Text)> {
        let found = self.domain_of(attr)?;
        (found.rest.is_empty() && found.via.is_none()).then(|| (found.side, found.domain.clone()))
    }

    /// Notes the fields of the device that a chain without a slot reads.
    pub(super) fn note_reads(&mut self, attr: &Attr) {
        match &attr.base {
            Base::Device => match attr.path.first() {
                Some(Step::Key(Value::Text(name), _) | Step::Test(Value::Text(name))) => match &**name {
                    "driver" => self.reads.driver = true,
                    "allowMultipleAllocations" => self.reads.allow_multiple = true,
                    "attributes" => self.reads.whole_attributes = true,
                    "capacity" => self.reads.whole_capacity = true,
                    _ => {}
                },
                _ => self.note_everything(),
            },
            Base::Local(local) => {
                if let Some((side, _)) = self.domains.get(local) {
                    let side = *side;
                    self.note_whole(side);
                }
            }
            Base::Op(_) | Base::Variable(_) => {}
            Base::Choice(_, branches) => {
                self.note_reads(&branches.0);
                self.note_reads(&branches.1);
            }
        }
        for step in &attr.path {
            if let Step::Attr(inner, _) = step {
                self.note_reads(inner);
            }
        }
    }

    fn note_whole(&mut self, side: Side) {
        match side {
            Side::Attributes => self.reads.whole_attributes = true,
            Side::Capacity => self.reads.whole_capacity = true,
        }
    }

    fn note_everything(&mut self) {
        self.reads.driver = true;
        self.reads.allow_multiple = true;
        self.reads.whole_attributes = true;
        self.reads.whole_capacity = true;
    }

    /// The step that an index makes.
    pub(super) fn index_step(&self, planned: Planned, optional: Optional) -> Step {
        match planned {
            Planned::Attr(attr) => Step::Attr(Arc::new(attr), optional),
            Planned::Op(op) => match self.constant(op) {
                Some(key) => Step::Key(key.clone(), optional),
                None => Step::Op(op, optional),
            },
        }
    }
}

fn side_named(name: &str) -> Option<Side> {
    match name {
        "attributes" => Some(Side::Attributes),
        "capacity" => Some(Side::Capacity),
        _ => None,
    }
}

fn field_of_device(attr: &Attr) -> Option<Op> {
    match (&attr.base, &*attr.path) {
        (Base::Device, [Step::Key(Value::Text(name), false)]) => match &**name {
            "driver" => Some(Op::Driver),
            "allowMultipleAllocations" => Some(Op::AllowMultiple),
            _ => None,
        },
        _ => None,
    }
}
