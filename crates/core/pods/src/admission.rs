//! Whether a node takes a pod.

use alloc::{format, string::String};

use crate::{Amounts, PodView, machine::Options};

/// The requests of the node's pods together, and the number of pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) amounts: Amounts,
    pub(crate) pods: u64,
}

impl Used {
    pub(crate) fn add(&mut self, requests: Amounts) {
        let sum = &mut self.amounts;
        sum.cpu_milli = sum.cpu_milli.saturating_add(requests.cpu_milli);
        sum.memory = sum.memory.saturating_add(requests.memory);
        sum.ephemeral_storage = sum.ephemeral_storage.saturating_add(requests.ephemeral_storage);
        self.pods += 1;
    }
}

/// Why a pod is not taken: one word and a sentence, in kubelet's words.
pub(crate) fn refusal(options: &Options, used: Used, view: &PodView) -> Option<(String, String)> {
    view.refusal.clone().or_else(|| lack(options, used, view.requests))
}

/// The resource that the node lacks for these requests, beside those in use: a reason and a message.
pub(crate) fn lack(options: &Options, used: Used, asks: Amounts) -> Option<(String, String)> {
    let has = options.capacity;
    let amounts = used.amounts;
    let checks = [
        ("pods", 1, used.pods, options.pods_max),
        ("cpu", asks.cpu_milli, amounts.cpu_milli, has.cpu_milli),
        ("memory", asks.memory, amounts.memory, has.memory),
        ("ephemeral-storage", asks.ephemeral_storage, amounts.ephemeral_storage, has.ephemeral_storage),
    ];
    let fails = |(_, asked, used, capacity): &(_, u64, u64, u64)| {
        *asked > 0 && used.saturating_add(*asked) > *capacity
    };
    let (name, asked, used, capacity) = checks.into_iter().find(fails)?;
    let message = format!(
        "Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {capacity}"
    );
    Some((format!("OutOf{name}"), message))
}
