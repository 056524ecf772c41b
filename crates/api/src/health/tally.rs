//! The counts of a policy's rules, in its status.

use lazaret_lifecycle::{COUNT_MAX, Source, Tally};
use lazaret_model::{DeviceId, Text, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{format_time_precise, parse_time};

/// Signals that last which are read of one entry; as many are kept for a rule and device.
const LASTING_MAX: usize = 64;

#[derive(Deserialize)]
pub(super) struct WireTally {
    driver: String,
    pool: String,
    device: String,
    rule: String,
    #[serde(default)]
    hits: Vec<String>,
    #[serde(default)]
    lasting: Vec<WireLasting>,
}

#[derive(Deserialize)]
struct WireLasting {
    key: String,
    source: String,
    #[serde(default)]
    value: String,
}

impl WireTally {
    /// The tally; `None` where an instant or a source is invalid.
    pub(super) fn read(self) -> Option<Tally> {
        let hits = self.hits.iter().take(COUNT_MAX as usize).map(|at| parse_time(at).ok());
        let hits: Vec<Timestamp> = hits.collect::<Option<_>>()?;
        let lasting = self.lasting.into_iter().take(LASTING_MAX).map(|one| {
            let source = Source::from_name(&one.source)?;
            Some((Text::from(one.key), source, Text::from(one.value)))
        });
        Some(Tally {
            device: DeviceId::new(self.driver, self.pool, self.device),
            rule: self.rule.into(),
            hits,
            lasting: lasting.collect::<Option<_>>()?,
        })
    }
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
