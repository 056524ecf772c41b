//! How long incidents are kept.

use lazaret_controllers::IncidentHistory;

/// Flags about incidents of devices.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IncidentArgs {
    /// Delete incidents of devices this long after their end, as in 720h; of more than 10,000 the oldest goes before
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = keep)]
    incident_history: i64,
}

impl IncidentArgs {
    pub(crate) fn history(&self) -> IncidentHistory {
        IncidentHistory { keep_ms: self.incident_history, ..IncidentHistory::default() }
    }
}

/// Milliseconds.
fn keep(text: &str) -> Result<i64, String> {
    crate::policy::duration(text).and_then(|millis| {
        if millis > 0 { Ok(millis) } else { Err("must be longer than nothing".to_owned()) }
    })
}
