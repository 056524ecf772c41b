//! Faults put on purpose between the world and the machines, to see that the world notices.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Drivers do not see who uses a claim.
    BlindToUsers,
    /// The finalizer is not written, though it is said to be.
    NoFinalizer,
    /// The finalizer goes as soon as the driver takes its name back.
    HastyRelease,
    /// The scheduler takes every claim for one that any number may use.
    Unlimited,
    /// The scheduler binds pods whose claims it has not reserved.
    BindEarly,
    /// The scheduler uses claims that belong to others.
    UseForeign,
    /// The server does not look at versions.
    IgnoreVersions,
    /// A restarted driver does not see that it left a claim half-way.
    ForgetAttempts,
    /// A restarted claim controller does not see pods, and hears that they are gone.
    HastyGone,
    /// Pods that are gone are said to exist.
    NeverGone,
    /// Requests to deallocate are not written, though they are said to be.
    NeverGiveUp,
    /// Answers about nodes are not written, though they are said to be, once a node was named unsuitable.
    StaleNodes,
    /// Deallocated devices stay held.
    Leak,
    /// An unknown outcome is reported as done.
    UnknownIsDone,
    /// Wakes never come.
    LostWake,
    /// The claim controller does not hear what nodes have prepared.
    NoReports,
    /// Nodes say that claims are unprepared before they are.
    HastyNode,
}

impl Mutant {
    pub(crate) const ALL: [Self; 17] = [
        Self::BlindToUsers,
        Self::NoFinalizer,
        Self::HastyRelease,
        Self::Unlimited,
        Self::BindEarly,
        Self::UseForeign,
        Self::IgnoreVersions,
        Self::ForgetAttempts,
        Self::HastyGone,
        Self::NeverGone,
        Self::NeverGiveUp,
        Self::StaleNodes,
        Self::Leak,
        Self::UnknownIsDone,
        Self::LostWake,
        Self::NoReports,
        Self::HastyNode,
    ];
}
