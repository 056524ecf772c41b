//! The machine in figures.

/// Counts of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Times that a pod was looked at, for whatever reason, ever: the work that was done.
    pub looks: u64,
    /// Pods with a taint that is counted.
    pub tainted: u64,
    /// Replacements in flight.
    pub in_flight: u64,
    /// Policies whose breaker holds.
    pub tripped: u64,
    /// Replacements begun, ever.
    pub started: u64,
    /// Replacements that came to their end, ever.
    pub replaced: u64,
    /// Replacements given up before anything was done, ever.
    pub cancelled: u64,
    /// Replacements not Ready in time, ever.
    pub overdue: u64,
    /// Replacements after which no owner started another pod, ever.
    pub unreplaced: u64,
    /// Times that a disruption budget held a pod back, ever.
    pub held: u64,
    /// Steps that were refused, ever.
    pub refused: u64,
}
