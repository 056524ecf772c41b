//! The one loop that runs a core against an API server, in this process or far away: watches in, writes out.
//!
//! **Invariant.** Decides nothing. What a core hears is level-triggered: any news may come late, twice, or only with the
//! next list; every queue has a limit, and a listener that is too slow is told everything again instead of being
//! buffered for. Nothing is written by who does not hold the lease.
