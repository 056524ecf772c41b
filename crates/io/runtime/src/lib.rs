//! The one loop that runs a core against an API server, in this process or far away: watches in, writes out.
//!
//! [`Hub`] watches each resource once and shares what it hears ([`News`]) with every [`Inbox`]; [`run`] feeds an [`Agent`]
//! (a core with its objects) and hands its effects to a [`Perform`]er; [`Leader`] holds a Lease so that of several
//! processes one acts.
//!
//! The core `leader` decides when an agent leads, which effects are sent, and the outcome of an effect without an answer; this crate carries it out.
//!
//! **Invariant.** Decides nothing. News are level-triggered: they may come late, twice, or only with the next list; every queue has a limit, and a
//! listener that is too slow gets a new list instead of a longer buffer. Only the holder of the lease writes, and it decides on no view older than
//! its lease.

mod agent;
mod beginning;
mod call;
mod classic;
mod clock;
mod collection;
mod election;
mod health;
mod hub;
mod in_flight;
mod inbox;
mod invariants;
mod leadership;
mod lines;
mod metrics;
mod object;
mod panics;
mod postbox;
mod pump;
mod reading;
mod reply;
mod resource;
mod share;
mod standing;
mod tasks;
mod templates;
mod topic;
mod turn;
mod watched;

pub use agent::{Agent, AgentOptions, Perform, ViewWish};
pub use beginning::read_metadata;
pub use call::{Body, Call, CallError, Client, PatchKind, RequestError};
pub use classic::change_classic_claim;
pub use clock::Clock;
pub use collection::{Change, Watch, escape_query};
pub use election::Leader;
pub use health::Health;
pub use hub::Hub;
pub use inbox::Inbox;
pub use lazaret_leader::{Candidate, LeaseAction, LeaseOptions, LeaseRecord, Precedence, Term};
pub use lazaret_machine::{Effect, EffectId, Outcome, Wake};
pub use leadership::Leadership;
pub use metrics::Metrics;
pub use object::{Model, News, Object};
pub use postbox::{Postbox, Postman};
pub use reading::Reading;
pub use reply::Reply;
pub use resource::*;
pub use tasks::Tasks;
pub use topic::WatchState;
pub use turn::run;
