//! The driver of all hollow nodes: publishes their devices, and which of them fail.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_kubelet::Agenda;
use lazaret_model::{ResourceSlice, Text, Timestamp};
use lazaret_runtime::{CLASSES, Call, EffectId, Outcome, SLICES};
use tracing::warn;

use crate::{
    effect::Effect,
    failures::{self, Failures},
    node::HollowNode,
    options::HollowOptions,
    slice_json::{self, Published},
};

/// How long to wait until what was written is seen before looking again.
const RECHECK_MS: i64 = 30_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Class,
    /// The slice of a node, by number.
    Slice(usize),
}

/// The driver. Hears of nodes, slices and classes; publishes a slice for each of its nodes that exists.
#[derive(Debug)]
pub struct Driver {
    options: Arc<HollowOptions>,
    leads: bool,
    agenda: Agenda<Item>,
    effects: VecDeque<(EffectId, Effect)>,
    nodes: Vec<Publication>,
    numbers: BTreeMap<Text, usize>,
    has_class: bool,
    class_settled_until: Option<Timestamp>,
}

/// The state of one node.
#[derive(Debug, Default)]
struct Publication {
    node: Option<HollowNode>,
    failures: Failures,
    slice: Option<Published>,
    /// The last write should be seen by then.
    settled_until: Option<Timestamp>,
    /// Something was heard since the last write began: it may be what was written, or need another.
    news: bool,
}

impl Publication {
    fn hear(&mut self) {
        (self.settled_until, self.news) = (None, true);
    }
}

impl Driver {
    /// The driver of a fleet, of which nothing has been seen yet.
    #[must_use]
    pub fn new(options: Arc<HollowOptions>) -> Self {
        let numbers = (0..options.nodes).map(|index| (options.node_name(index).into(), index)).collect();
        Self {
            leads: false,
            agenda: Agenda::new(options.in_flight_max),
            effects: VecDeque::new(),
            nodes: (0..options.nodes).map(|_| Publication::default()).collect(),
            numbers,
            has_class: false,
            class_settled_until: None,
            options,
        }
    }

    /// A node as it is now.
    pub fn hear_node(&mut self, node: HollowNode) {
        let Some(&index) = self.numbers.get(&node.seen.name) else { return };
        let publication = &mut self.nodes[index];
        if publication
            .node
            .as_ref()
            .is_some_and(|known| known.fail == node.fail && known.seen.uid == node.seen.uid)
        {
            return;
        }
        match failures::read(node.fail.as_deref()) {
            Ok(failures) => publication.failures = failures,
            // An annotation that cannot be read changes nothing: a typing error should not bring devices back.
            Err(error) => warn!(node = %node.seen.name, %error, "an annotation cannot be understood"),
        }
        publication.node = Some(node);
        publication.hear();
        self.touch(Item::Slice(index));
    }

    /// No such node. Its slice goes with it: the node owns it.
    pub fn miss_node(&mut self, name: &Text) {
        if let Some(&index) = self.numbers.get(name) {
            self.nodes[index].node = None;
        }
    }

    /// All nodes there are.
    pub fn list_nodes(&mut self, nodes: Vec<HollowNode>) {
        let there: BTreeSet<Text> = nodes.iter().map(|node| node.seen.name.clone()).collect();
        let gone: Vec<Text> = self.numbers.keys().filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.miss_node(name));
        nodes.into_iter().for_each(|node| self.hear_node(node));
    }

    /// A slice as it is now, and its version.
    pub fn hear_slice(&mut self, slice: &ResourceSlice, version: Text) {
        let Some(index) = self.index_of(slice) else { return };
        self.nodes[index].slice = Some(Published::new(slice, version));
        self.nodes[index].hear();
        self.touch(Item::Slice(index));
    }

    /// No slice of this name.
    pub fn miss_slice(&mut self, slice: &ResourceSlice) {
        let Some(index) = self.index_of(slice) else { return };
        self.nodes[index].slice = None;
        self.nodes[index].hear();
        self.touch(Item::Slice(index));
    }

    /// All slices there are, with their versions.
    pub fn list_slices(&mut self, slices: Vec<(Arc<ResourceSlice>, Text)>) {
        let there: BTreeSet<usize> = slices.iter().filter_map(|(slice, _)| self.index_of(slice)).collect();
        for index in (0..self.nodes.len()).filter(|index| !there.contains(index)) {
            if self.nodes[index].slice.take().is_some() {
                self.nodes[index].hear();
                self.touch(Item::Slice(index));
            }
        }
        slices.into_iter().for_each(|(slice, version)| self.hear_slice(&slice, version));
    }

    /// Whether there is a class of this name.
    pub fn hear_class(&mut self, name: &Text, exists: bool) {
        if *name == self.options.driver && self.has_class != exists {
            self.has_class = exists;
            self.class_settled_until = None;
            self.touch(Item::Class);
        }
    }

    /// All classes there are.
    pub fn list_classes(&mut self, names: &[Text]) {
        let name = self.options.driver.clone();
        self.hear_class(&name, names.contains(&name));
    }

    /// From now on effects are wanted, or none are.
    pub fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.agenda.clear();
        self.effects.clear();
        self.class_settled_until = None;
        self.nodes.iter_mut().for_each(|publication| publication.settled_until = None);
        if leads {
            self.agenda.touch(Item::Class);
            (0..self.nodes.len()).for_each(|index| self.agenda.touch(Item::Slice(index)));
        }
    }

    /// Decides what is to be done at `now`.
    pub fn think(&mut self, now: Timestamp) {
        if !self.leads {
            return;
        }
        self.agenda.wake(now);
        while let Some(item) = self.agenda.next() {
            if self.agenda.is_paused(&item, now) {
                continue;
            }
            let settled_until = match item {
                Item::Class => self.class_settled_until,
                Item::Slice(index) => self.nodes[index].settled_until,
            };
            if let Some(until) = settled_until.filter(|until| *until > now) {
                self.agenda.later(until, item);
                continue;
            }
            let call = match item {
                Item::Class => self.make_class(),
                Item::Slice(index) => {
                    self.nodes[index].news = false;
                    self.publish(index)
                }
            };
            if let Some(call) = call {
                let id = self.agenda.launch(item);
                self.effects.push_back((id, Effect::Calls(vec![call])));
            }
        }
    }

    /// The outcome of an effect.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let failed = match outcome {
            Outcome::Done => false,
            Outcome::Gone
            | Outcome::Conflict
            | Outcome::Refused
            | Outcome::Held
            | Outcome::RetryLater
            | Outcome::Unknown => true,
        };
        let settled_until = (!failed).then(|| now.plus_millis(RECHECK_MS));
        match self.agenda.land(now, id, failed) {
            Some(Item::Class) => self.class_settled_until = settled_until.filter(|_| !self.has_class),
            Some(Item::Slice(index)) => {
                let publication = &mut self.nodes[index];
                publication.settled_until = settled_until.filter(|_| !publication.news);
            }
            None => {}
        }
    }

    /// The next thing to be done, and the number to acknowledge it by.
    pub fn poll(&mut self) -> Option<(EffectId, Effect)> {
        self.effects.pop_front()
    }

    /// The node whose devices an effect in flight publishes; none for the class.
    #[must_use]
    pub fn node_of(&self, id: EffectId) -> Option<String> {
        match self.agenda.in_flight(id)? {
            Item::Class => None,
            Item::Slice(index) => Some(self.options.node_name(*index)),
        }
    }

    /// When it wants to think again if nothing happens before.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.agenda.next_timer().filter(|_| self.leads).map(|(at, _)| at)
    }

    fn make_class(&self) -> Option<Call> {
        let class = || Call::create(&CLASSES, "", slice_json::class(&self.options).to_string());
        (!self.has_class).then(class)
    }

    fn publish(&self, index: usize) -> Option<Call> {
        let publication = &self.nodes[index];
        let node = publication.node.as_ref()?;
        let before = publication.slice.as_ref();
        let mut wanted =
            slice_json::slice(&self.options, index, &node.seen.uid, &publication.failures, before);
        let Some(before) = before else {
            return Some(Call::create(&SLICES, "", wanted.to_string()));
        };
        let same = match lazaret_api::decode_json(&wanted.to_string()) {
            Ok(lazaret_api::Object::Slice(wanted)) => before.tells(&wanted),
            // A slice that cannot be read back cannot be compared: better written once too often than never.
            Ok(_) | Err(_) => false,
        };
        if same {
            return None;
        }
        wanted["metadata"]["uid"] = before.uid.as_str().into();
        wanted["metadata"]["resourceVersion"] = before.version.as_str().into();
        let name = slice_json::slice_name(&self.options, index);
        Some(Call::replace(&SLICES, "", &name, "", wanted.to_string()))
    }

    fn index_of(&self, slice: &ResourceSlice) -> Option<usize> {
        let index =
            self.numbers.get(&slice.pool.name).copied().filter(|_| slice.driver == self.options.driver)?;
        (*slice.name == *slice_json::slice_name(&self.options, index)).then_some(index)
    }

    fn touch(&mut self, item: Item) {
        if self.leads {
            self.agenda.touch(item);
        }
    }
}
