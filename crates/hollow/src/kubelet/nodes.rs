//! Nodes: registered, ready, and alive.

use std::collections::BTreeSet;

use lazaret_api::unprepared_to_text;
use lazaret_model::{REPORTS_UNPREPARED, Text, Timestamp, UNPREPARED, Uid};
use lazaret_runtime::{Call, LEASES, NODES, PatchKind};
use serde_json::{Value, json};

use super::{Item, Kubelet, RECHECK_MS};
use crate::{
    effect::Effect,
    node::SeenNode,
    node_json::{self, POD_ADDRESSES},
};

/// A node.
#[derive(Debug, Default)]
pub(super) struct NodeSlot {
    seen: Option<SeenNode>,
    /// The last write should be seen by then.
    settled_until: Option<Timestamp>,
    /// Something was heard since the last write began: it may be what was written, or need another.
    news: bool,
    renewed: Option<Timestamp>,
    /// The last parts of addresses in use.
    pub(super) addresses: [u64; 2],
}

impl NodeSlot {
    pub(super) fn forget_work(&mut self) {
        (self.settled_until, self.renewed) = (None, None);
    }

    /// An address that no pod of the node has.
    pub(super) fn take_address(&mut self) -> u8 {
        let last = POD_ADDRESSES - 1;
        let free = (2..last).find(|number| !self.is_taken(*number)).unwrap_or(last);
        self.mark(free, true);
        free
    }

    pub(super) fn mark(&mut self, number: u8, taken: bool) {
        let word = &mut self.addresses[usize::from(number / 64)];
        let bit = 1_u64 << (number % 64);
        *word = if taken { *word | bit } else { *word & !bit };
    }

    /// How long its driver takes to unprepare.
    pub(super) fn unprepare_after_ms(&self) -> i64 {
        self.seen.as_ref().and_then(|seen| seen.unprepare_after_ms).unwrap_or(0)
    }

    fn is_taken(&self, number: u8) -> bool {
        self.addresses[usize::from(number / 64)] & (1 << (number % 64)) != 0
    }
}

impl Kubelet {
    /// A node as it is now. Those that are not ours are nobody's business.
    pub fn hear_node(&mut self, seen: SeenNode) {
        let Some(&index) = self.numbers.get(&seen.name) else { return };
        let slot = &mut self.nodes[index];
        if slot.seen.as_ref() != Some(&seen) {
            let delay = slot.unprepare_after_ms();
            slot.seen = Some(seen);
            (slot.settled_until, slot.news) = (None, true);
            let faster = slot.unprepare_after_ms() != delay;
            self.touch(Item::Node(index));
            if faster {
                self.touch_users(index);
            }
        }
    }

    /// No such node.
    pub fn miss_node(&mut self, name: &Text) {
        let Some(&index) = self.numbers.get(name) else { return };
        if self.nodes[index].seen.take().is_some() {
            (self.nodes[index].settled_until, self.nodes[index].news) = (None, true);
            self.touch(Item::Node(index));
            self.touch_users(index);
        }
    }

    /// All nodes there are.
    pub fn list_nodes(&mut self, nodes: Vec<SeenNode>) {
        let there: std::collections::BTreeSet<Text> = nodes.iter().map(|node| node.name.clone()).collect();
        let gone: Vec<Text> = self.numbers.keys().filter(|name| !there.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.miss_node(name));
        nodes.into_iter().for_each(|node| self.hear_node(node));
    }

    pub(super) fn look_at_node(&mut self, now: Timestamp, index: usize) -> Option<Effect> {
        self.nodes[index].news = false;
        let slot = &self.nodes[index];
        if let Some(until) = slot.settled_until.filter(|until| *until > now) {
            self.agenda.later(until, Item::Node(index));
            return None;
        }
        let Some(seen) = &slot.seen else {
            let node = node_json::node(&self.options, index, now);
            return Some(Effect::Calls(vec![Call::create(&NODES, "", node.to_string())]));
        };
        if !seen.ready {
            let body = json!({
                "metadata": {"uid": &*seen.uid},
                "status": node_json::status(&self.options, index, now),
            });
            let patch = Call::patch(&NODES, "", &seen.name, "status", PatchKind::Strategic, body.to_string());
            return Some(Effect::Calls(vec![patch]));
        }
        if let Some(annotations) = self.answers(seen, index) {
            let body = json!({"metadata": {"uid": &*seen.uid, "annotations": annotations}});
            let patch = Call::patch(&NODES, "", &seen.name, "", PatchKind::Merge, body.to_string());
            return Some(Effect::Calls(vec![patch]));
        }
        if self.leaves_taints {
            return None;
        }
        // There may be no controller to see that it is ready. One that exists is first, or finds the taint removed.
        let taints = match seen.taints_when_ready.as_deref()? {
            [] => Value::Null,
            others => others.into(),
        };
        let body = json!({
            "metadata": {"uid": &*seen.uid, "resourceVersion": &*seen.version},
            "spec": {"taints": taints},
        });
        let patch = Call::patch(&NODES, "", &seen.name, "", PatchKind::Merge, body.to_string());
        Some(Effect::Calls(vec![patch]))
    }

    /// The annotations by which a node says what is prepared on it, where they are not as they should be. A node that unprepares in no time
    /// has nothing to say.
    fn answers(&self, seen: &SeenNode, index: usize) -> Option<Value> {
        if !seen.reports && seen.unprepare_after_ms.is_none() {
            return None;
        }
        let unprepared: BTreeSet<Uid> =
            seen.awaiting.iter().filter(|claim| !self.prepared.has(index, claim)).cloned().collect();
        if seen.reports && unprepared == seen.unprepared {
            return None;
        }
        let text = (!unprepared.is_empty()).then(|| unprepared_to_text(&unprepared));
        Some(json!({REPORTS_UNPREPARED: "true", UNPREPARED: text}))
    }

    pub(super) fn node_written(&mut self, now: Timestamp, index: usize) {
        let slot = &mut self.nodes[index];
        slot.settled_until = (!slot.news).then(|| now.plus_millis(RECHECK_MS));
    }

    /// Renews the lease if it is time.
    pub(super) fn renew(&mut self, now: Timestamp, index: usize) -> Option<Effect> {
        if let Some(renewed) = self.nodes[index].renewed {
            let next = renewed.plus_millis(self.options.lease_interval_ms);
            if now < next {
                self.agenda.later(next, Item::Lease(index));
                return None;
            }
        }
        let name = self.options.node_name(index);
        let renewal = node_json::renewal(&self.options, index, now).to_string();
        let lease = node_json::lease(&self.options, index, now).to_string();
        Some(Effect::Lease {
            renew: Call::patch(&LEASES, "kube-node-lease", &name, "", PatchKind::Merge, renewal),
            create: Call::create(&LEASES, "kube-node-lease", lease),
        })
    }

    pub(super) fn lease_renewed(&mut self, now: Timestamp, index: usize) {
        self.nodes[index].renewed = Some(now);
    }
}
