//! Options of the machine.

use lazaret_model::SetBack;

/// Options of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Between two writes of one status that record nothing new.
    pub status_ms: i64,
    /// The first pause after a failure; each further one doubles it.
    pub retry_ms_min: i64,
    /// No pause is longer.
    pub retry_ms_max: i64,
    /// How long news of what was done may take before it is taken to be missing.
    pub settle_ms: i64,
    /// How long a pod is left alone after a disruption budget held it back.
    pub budget_ms: i64,
    /// Replacements in flight in the whole cluster.
    pub flights_max: usize,
    /// Events that may wait to be taken; further ones are dropped.
    pub events_max: usize,
    /// The clock was set back: taints and pods that were there before are no younger for it.
    pub set_back: Option<SetBack>,
    /// The names of authors and approvers in annotations are those that the server recorded.
    pub trusts_user_names: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // A new taint is to be seen in the status within a second.
            status_ms: 400,
            retry_ms_min: 250,
            retry_ms_max: 60_000,
            settle_ms: 5_000,
            budget_ms: 10_000,
            flights_max: 500,
            events_max: 1_024,
            set_back: None,
            trusts_user_names: false,
        }
    }
}
