//! The device, as maps.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::{AttrId, AttrNames, AttrValue, QualifiedName, Quantity};

use super::{
    length::char_count,
    value::{Key, List, Map, Side, Str, Value},
};
use crate::{authorization::Authorizer, datum::Lazy, device::Device, error::EvalError};

/// The inputs from which values that stand for parts of the device are made whole.
#[derive(Clone, Copy)]
pub(crate) struct Context<'v> {
    pub(crate) device: &'v dyn Device,
    /// The other inputs of the expression.
    pub(crate) given: &'v Given<'v>,
}

/// The inputs of an expression besides the device.
pub(crate) struct Given<'v> {
    /// The variables, in the order in which they were declared.
    pub(crate) variables: &'v [Value<'v>],
    /// Answers the checks of `authorizer`.
    pub(crate) authorizer: Option<&'v dyn Authorizer>,
    /// The entries of a lazy map.
    pub(crate) lazy: Option<&'v dyn Lazy>,
}

impl Given<'_> {
    pub(crate) const NOTHING: &'static Given<'static> =
        &Given { variables: &[], authorizer: None, lazy: None };
}

impl<'v> Context<'v> {
    /// A device and nothing else.
    pub(crate) fn of(device: &'v dyn Device) -> Self {
        Self { device, given: Given::NOTHING }
    }

    /// A variable by its place.
    pub(crate) fn variable(self, at: u32) -> Value<'v> {
        self.given.variables.get(at as usize).map_or(Value::Null, Value::borrowed)
    }

    /// One value of a domain, by its number.
    pub(crate) fn value(self, side: Side, id: AttrId) -> Option<Value<'v>> {
        match side {
            Side::Attributes => self.device.attribute(id).and_then(Value::of_attribute),
            Side::Capacity => self.device.capacity(id).map(|q| Value::Quantity(super::value::Shared::Ref(q))),
        }
    }

    /// The number of a name. Domains never contain a slash: keys are split at the first.
    pub(crate) fn id(self, domain: &str, id: &str) -> AttrId {
        id_of(self.device.names(), domain, id)
    }

    /// The numbers of everything on a side.
    fn ids(self, side: Side) -> Vec<AttrId> {
        let mut ids = Vec::new();
        match side {
            Side::Attributes => self.device.attributes(&mut |id, _| ids.push(id)),
            Side::Capacity => self.device.capacities(&mut |id, _| ids.push(id)),
        }
        ids
    }

    /// Whether anything on a side is of this domain.
    pub(crate) fn has_domain(self, side: Side, domain: &str) -> bool {
        let names = self.device.names();
        let mut found = false;
        match side {
            Side::Attributes => {
                self.device.attributes(&mut |id, _| found |= names.resolve(id).domain == *domain)
            }
            Side::Capacity => {
                self.device.capacities(&mut |id, _| found |= names.resolve(id).domain == *domain)
            }
        }
        found
    }

    /// The entry of a map, as selection and indexing see it: a domain that does not exist is an empty map.
    pub(crate) fn find(self, map: &Map<'v>, key: &Value<'v>) -> Option<Value<'v>> {
        match (map, key) {
            (Map::Made(entries), _) => entries.get(&key.to_key()?).cloned(),
            (Map::Device, Value::Text(name)) => match &**name {
                "driver" => Some(Value::Text(Str::Ref(self.device.driver()))),
                "allowMultipleAllocations" => Some(Value::Bool(self.device.allow_multiple_allocations())),
                "attributes" => Some(Value::Map(Map::Domains(Side::Attributes))),
                "capacity" => Some(Value::Map(Map::Domains(Side::Capacity))),
                _ => None,
            },
            (Map::Domains(side), Value::Text(domain)) => Some(Value::Map(Map::Ids(*side, domain.clone()))),
            (Map::Domains(_), _) => Some(Value::Map(Map::Made(Arc::default()))),
            (Map::Ids(side, domain), Value::Text(id)) => self.value(*side, self.id(domain, id)),
            (Map::Lazy, Value::Text(name)) => self.lazy(name)?.ok(),
            (Map::Device | Map::Ids(..) | Map::Lazy, _) => None,
        }
    }

    /// An entry of a lazy map, or why it cannot be computed.
    pub(crate) fn lazy(self, name: &str) -> Option<Result<Value<'v>, EvalError>> {
        let found = self.given.lazy?.get(name)?;
        Some(found.map(|found| found.0).map_err(|error| {
            EvalError::new(alloc::format!(
                "composited variable {name:?} fails to evaluate: {}",
                error.message()
            ))
        }))
    }

    /// Whether a map has an entry. A domain must exist for that.
    pub(crate) fn contains(self, map: &Map<'v>, key: &Value<'v>) -> bool {
        match (map, key) {
            (Map::Domains(side), Value::Text(domain)) => self.has_domain(*side, domain),
            (Map::Domains(_), _) => false,
            _ => self.find(map, key).is_some(),
        }
    }

    /// How many entries a map has.
    pub(crate) fn map_len(self, map: &Map<'v>) -> usize {
        if let Map::Made(entries) = map { entries.len() } else { self.entries(map).len() }
    }

    /// All entries of a map, in order of their keys.
    pub(crate) fn entries(self, map: &Map<'v>) -> Arc<BTreeMap<Key<'v>, Value<'v>>> {
        let names: &'v AttrNames = self.device.names();
        let text = |text: &'v str| Key::Text(Str::Ref(text));
        match map {
            Map::Made(entries) => Arc::clone(entries),
            Map::Lazy => Arc::default(),
            Map::Device => Arc::new(
                ["driver", "allowMultipleAllocations", "attributes", "capacity"]
                    .into_iter()
                    .filter_map(|name| Some((text(name), self.find(map, &Value::Text(Str::Ref(name)))?)))
                    .collect(),
            ),
            Map::Domains(side) => {
                let domain = |id| Str::Ref(&names.resolve(id).domain);
                let entry = |id| (Key::Text(domain(id)), Value::Map(Map::Ids(*side, domain(id))));
                Arc::new(self.ids(*side).into_iter().map(entry).collect())
            }
            Map::Ids(side, domain) => {
                let of_domain =
                    self.ids(*side).into_iter().filter(|id| names.resolve(*id).domain == **domain);
                let entry = |id| Some((text(&names.resolve(id).id), self.value(*side, id)?));
                Arc::new(of_domain.filter_map(entry).collect())
            }
        }
    }

    /// The size that costs and `size()` go by; `None` for what has none.
    pub(crate) fn size(self, value: &Value<'v>) -> Option<u64> {
        let size = match value {
            Value::Text(text) => return Some(char_count(text)),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => self.map_len(map),
            Value::Ip(ip) => return Some(if ip.is_ipv4() { 4 } else { 16 }),
            Value::Cidr(cidr) => return Some(cidr.size()),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) => return None,
            Value::Optional(_) | Value::Quantity(_) | Value::Semver(_) | Value::Duration(_) => return None,
            Value::Timestamp(_) | Value::Type(_) | Value::Url(_) | Value::Format(_) => return None,
            Value::Authorization(_) => return None,
        };
        Some(size as u64)
    }

    /// `value` with every part of the device in it taken apart.
    pub(crate) fn whole(self, value: &Value<'v>) -> Value<'v> {
        match value {
            Value::Map(map) => {
                let entries = self.entries(map);
                let whole = entries.iter().map(|(key, value)| (key.clone(), self.whole(value))).collect();
                Value::Map(Map::Made(Arc::new(whole)))
            }
            Value::List(List::Made(values)) => {
                Value::list(values.iter().map(|value| self.whole(value)).collect())
            }
            other => other.clone(),
        }
    }
}

/// The number of a name in a table.
pub(crate) fn id_of(names: &AttrNames, domain: &str, id: &str) -> AttrId {
    if domain.contains('/') {
        return AttrId::ABSENT;
    }
    names.get(&QualifiedName { domain: domain.into(), id: id.into() })
}

/// Stands in for the device while constants are folded: no constant speaks of one.
#[derive(Debug, Default)]
pub(crate) struct NoDevice {
    names: AttrNames,
}

impl Device for NoDevice {
    fn driver(&self) -> &'static str {
        ""
    }
    fn attribute(&self, _: AttrId) -> Option<&AttrValue> {
        None
    }
    fn capacity(&self, _: AttrId) -> Option<&Quantity> {
        None
    }
    fn allow_multiple_allocations(&self) -> bool {
        false
    }
    fn attributes(&self, _: &mut dyn FnMut(AttrId, &AttrValue)) {}
    fn capacities(&self, _: &mut dyn FnMut(AttrId, &Quantity)) {}
    fn names(&self) -> &AttrNames {
        &self.names
    }
    fn has_unsupported_value(&self) -> bool {
        false
    }
}
