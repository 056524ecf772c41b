//! The hot paths, each small enough to be simulated and large enough to be like the real thing.

mod cores;
mod health;
mod served;

use anyhow::Result;

/// A path.
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// Rounds of the first run; the second has twice as many.
    pub(crate) rounds: usize,
    /// The number of counts, of which the least is taken. Where a second thread has a part, how often one waits for the other is up to the
    /// system, and waiting only ever adds.
    pub(crate) counts: usize,
    pub(crate) run: fn(usize) -> Result<()>,
}

/// All of them.
pub(crate) const ALL: &[Path] = &[
    Path { name: "cel-evaluation", rounds: 500, counts: 1, run: cores::cel_evaluation },
    Path { name: "rule-match", rounds: 20, counts: 1, run: cores::rule_match },
    Path { name: "plan-step", rounds: 100, counts: 1, run: cores::plan_step },
    Path { name: "allocation", rounds: 50, counts: 1, run: cores::allocation },
    Path { name: "signal-of-50-rules", rounds: 200, counts: 1, run: health::signal_of_fifty_rules },
    Path { name: "commit", rounds: 200, counts: 3, run: served::commit },
    Path { name: "watch-fan-out", rounds: 60, counts: 3, run: served::watch_fan_out },
];
