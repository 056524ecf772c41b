//! The effects of the machines.

use lazaret_runtime::Call;

/// Requests, and how to go on from one to the next.
#[derive(Clone, Debug)]
pub enum Effect {
    /// All of them, in order; the first that fails ends it. To create what is there already is no failure.
    Calls(Vec<Call>),
    /// Renew a lease; create it if there is none.
    Lease {
        /// Tried first.
        renew: Call,
        /// If there was nothing to renew.
        create: Call,
    },
}
