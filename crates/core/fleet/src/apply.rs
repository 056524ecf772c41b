//! The one way in.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_model::{ObjectKey, Text};

use crate::{DEVICES_PER_SLICE_MAX, Fleet, Input, Kind};

impl Fleet {
    /// Takes in one object as it is now, or that it is gone. Saying it twice changes nothing.
    pub fn apply(&mut self, input: Input) {
        self.take_in(input);
    }

    /// The same. If it is a pod or a claim that is there now: its number.
    fn take_in(&mut self, input: Input) -> Option<u32> {
        let mut number = None;
        let input = self.gates.admit(input)?;
        match input {
            Input::Slice(slice) => self.apply_slice(&slice),
            Input::SliceGone(name) => self.slice_gone(&name),
            Input::Rule(rule) => self.apply_rule(rule),
            Input::RuleGone(name) => self.rule_gone(&name),
            Input::Patch(patch) => self.apply_patch(patch),
            Input::PatchGone(name) => self.patch_gone(&name),
            Input::Class(class) => self.apply_class(class),
            Input::ClassGone(name) => self.class_gone(&name),
            Input::Claim(claim) => number = Some(self.apply_claim(claim)),
            Input::ClaimGone(key) => self.claim_gone(&key),
            Input::Pod(pod) => number = Some(self.apply_pod(pod)),
            Input::PodGone(key) => self.pod_gone(&key),
            Input::Node(node) => {
                if self.next.nodes.get(&node.name).is_none_or(|known| *known != node) {
                    self.note_node(&node.name);
                    self.next.nodes.insert(node.name.clone(), node);
                }
            }
            Input::NodeGone(name) => {
                if self.next.nodes.remove(&name).is_some() {
                    self.note_node(&name);
                }
            }
        }
        if core::mem::take(&mut self.noted.moved) {
            self.revision += 1;
        }
        number
    }

    /// Takes in all objects of one kind: what is not listed is gone. Objects of other kinds among them are applied
    /// as usual.
    pub fn relist(&mut self, kind: Kind, objects: Vec<Input>) {
        self.relist_keeping(kind, objects, &BTreeSet::new());
    }

    /// The same. The objects in `kept` stay as they are known: they are there, and say nothing that can be read.
    pub fn relist_keeping(&mut self, kind: Kind, objects: Vec<Input>, kept: &BTreeSet<ObjectKey>) {
        let known = self.names_of(kind);
        let mut gone = Vec::new();
        if !known.is_empty() {
            let listed: BTreeSet<&Text> =
                objects.iter().filter(|object| object.kind() == kind).filter_map(Input::name).collect();
            let names = known.into_iter().filter(|name| !listed.contains(name)).cloned();
            gone.extend(names.filter_map(|name| Input::gone_by_name(kind, name)));
        }
        self.make_room(kind, &objects);
        let mut numbers = Vec::with_capacity(objects.len());
        for object in objects {
            let of_kind = object.kind() == kind;
            numbers.extend(self.take_in(object).filter(|_| of_kind));
        }
        gone.extend(self.except(kind, &numbers));
        for object in gone {
            if kept.is_empty() || !kept.contains(&object.key()) {
                self.apply(object);
            }
        }
    }

    /// Whether it was told of an object of this kind, and not that it is gone.
    #[must_use]
    pub fn holds(&self, kind: Kind, key: &ObjectKey) -> bool {
        match kind {
            Kind::Claim => self.claim_ix(key).is_some_and(|claim| self.claim(claim).is_some()),
            Kind::Pod => self.pod_ix(key).is_some_and(|pod| self.pod(pod).is_some()),
            Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => {
                self.names_of(kind).contains(&&key.name)
            }
        }
    }

    /// These of a kind are about to come.
    fn make_room(&mut self, kind: Kind, objects: &[Input]) {
        let more = |known: usize| objects.len().saturating_sub(known);
        match kind {
            Kind::Pod => {
                let more = more(self.pods.len());
                self.pods.reserve(more);
                self.pod_keys.reserve(more, |(hash, _)| *hash);
            }
            Kind::Claim => {
                let more = more(self.claims.len());
                self.claims.reserve(more);
                self.claim_names.reserve(more);
                self.holders.reserve(more);
                self.holder_lookup.reserve(more, |(hash, _)| *hash);
            }
            Kind::Slice => {
                let more = more(self.slices.len());
                self.slices.reserve(more);
                if more == objects.len() {
                    let devices = |object: &Input| {
                        // All objects of a list are of one kind.
                        let Input::Slice(slice) = object else { return 0 };
                        slice.devices.len().min(DEVICES_PER_SLICE_MAX)
                    };
                    self.devices.reserve(objects.iter().map(devices).sum());
                }
            }
            Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => {}
        }
    }

    /// For each pod, or claim, that has none of these numbers, the news that it is gone.
    fn except(&self, kind: Kind, numbers: &[u32]) -> Vec<Input> {
        let numbers = numbers.iter().copied();
        match kind {
            Kind::Pod => {
                self.pods.except(numbers).map(|entry| Input::PodGone(entry.pod.key.clone())).collect()
            }
            Kind::Claim => {
                self.claims.except(numbers).map(|entry| Input::ClaimGone(entry.claim.key.clone())).collect()
            }
            Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => Vec::new(),
        }
    }

    /// The names of all objects of a kind that has no namespaces.
    fn names_of(&self, kind: Kind) -> Vec<&Text> {
        match kind {
            Kind::Slice => {
                let published = self.pools.iter().flat_map(|(_, pool)| pool.slices.iter());
                published.filter_map(|&slice| Some(self.slices.get(slice)?.state.name())).collect()
            }
            Kind::Rule => self.rule_names.keys().collect(),
            Kind::Patch => self.patch_names.keys().collect(),
            Kind::Class => self.next.classes.iter().map(|(name, _)| name).collect(),
            Kind::Node => self.next.nodes.iter().map(|(name, _)| name).collect(),
            Kind::Claim | Kind::Pod => Vec::new(),
        }
    }

    fn note_node(&mut self, name: &Text) {
        self.noted.moved = true;
        self.noted.nodes.insert(name.clone());
    }
}
