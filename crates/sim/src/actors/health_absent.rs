//! Devices that are not published any more, though their node is there: a signal of each, until it is back or its node is gone.

use std::collections::BTreeSet;

use lazaret_lifecycle::{Input as CoreInput, Notice, Reconciler, Signal, Source};
use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    actors::{health::HealthAgent, health_policy::POLICY, health_pools},
    mutant::Mutant,
    palette,
    world::World,
};

/// The key of the signal.
pub(crate) const PUBLISHED: &str = "published";

/// Tells a core that a device is not published.
pub(super) fn raise(core: &mut Reconciler, now: Timestamp, device: &DeviceId) {
    let signal = Signal {
        device: device.clone(),
        key: PUBLISHED.into(),
        value: "False".into(),
        source: Source::Vanished,
        at: now,
        lasts: true,
        message: Text::default(),
    };
    core.handle(now, Notice::Core(CoreInput::Raised(signal)));
}

/// Tells a core that a device is published again.
pub(super) fn lower(core: &mut Reconciler, now: Timestamp, device: &DeviceId) {
    let (device, key, source) = (device.clone(), PUBLISHED.into(), Source::Vanished);
    core.handle(now, Notice::Core(CoreInput::Lowered { device, key, source }));
}

impl World {
    /// Tells a controller that begins to lead of devices that went before: a claim that holds one still names it, or its open incident. While
    /// it leads, it hears the same of devices of nodes that come.
    pub(super) fn hear_absent(&mut self, number: usize, now: Timestamp, begins: bool) {
        if self.config.healed < 2 || self.mutant == Some(Mutant::OverlookAbsent) {
            return;
        }
        let seen = self.clients[number].view.of(&self.api);
        let HealthAgent { core, raised, pools, vanished, policy, nodes, .. } =
            &mut self.health.agents[number];
        let there = (0..self.config.nodes).map(palette::node).filter(|name| seen.node(name).is_some());
        let before = core::mem::replace(nodes, there.collect());
        if !begins && nodes.is_subset(&before) {
            return;
        }
        let named = core.lifecycle().incidents().map(|incident| incident.device.clone());
        let held = seen.held().filter(|_| policy.is_some());
        let named: BTreeSet<DeviceId> = named.chain(held).collect();
        for id in named {
            let is_known = seen.lists(&id) || vanished.contains(&id);
            let is_asked = nodes.contains(&id.pool) && (begins || !before.contains(&id.pool));
            if is_known || !is_asked {
                continue;
            }
            if core.lifecycle().incident_of(&id).is_none() {
                let (hardware, policies) = (Some(id.to_string().into()), vec![POLICY.into()]);
                core.handle(now, Notice::Core(CoreInput::Device { id: id.clone(), hardware, policies }));
            }
            raise(core, now, &id);
            if pools.is_raised(&id.pool_id()) {
                health_pools::raise(core, now, &id);
            }
            raised.entry(id.clone()).or_default();
            vanished.insert(id);
        }
    }
}
