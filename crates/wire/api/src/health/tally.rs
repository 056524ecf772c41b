//! The counts of a policy's rules, in its status.

use lazaret_lifecycle::{Source, Tally};
use lazaret_model::{DeviceId, Text};
use serde_json::{Value, json};

use crate::{
    field::Path,
    format_time_precise,
    wire::{DeviceHealthPolicyStatus, HealthTally},
};

/// The counts that a status has; none where one breaks a limit.
pub(super) fn read(status: DeviceHealthPolicyStatus) -> Vec<Tally> {
    let is_valid = status.check(&Path::ROOT.field("status")).is_ok();
    status.counts.0.into_iter().filter(|_| is_valid).filter_map(tally).collect()
}

/// The tally; `None` where a source is invalid.
fn tally(wire: HealthTally) -> Option<Tally> {
    let lasting = wire.lasting.0.into_iter().map(|one| {
        let source = Source::from_name(&one.source)?;
        Some((Text::from(one.key), source, Text::from(one.value.0)))
    });
    Some(Tally {
        device: DeviceId::new(wire.driver, wire.pool, wire.device),
        rule: wire.rule.into(),
        hits: wire.hits.0.into_iter().map(|at| at.0).collect(),
        lasting: lasting.collect::<Option<_>>()?,
    })
}

/// `status.counts` of a policy.
#[must_use]
pub fn tallies_to_json(tallies: &[Tally]) -> Value {
    let one = |tally: &Tally| {
        let lasting = tally
            .lasting
            .iter()
            .map(|(key, source, value)| json!({"key": &**key, "source": source.name(), "value": &**value}));
        let DeviceId { driver, pool, device } = &tally.device;
        json!({
            "driver": &**driver, "pool": &**pool, "device": &**device, "rule": &*tally.rule,
            "hits": tally.hits.iter().map(|at| format_time_precise(*at)).collect::<Vec<_>>(),
            "lasting": lasting.collect::<Vec<_>>(),
        })
    };
    tallies.iter().map(one).collect()
}
