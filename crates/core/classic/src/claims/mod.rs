//! The claim controller: makes claims from templates of pods, and removes reservations of pods that are gone.

mod effect;
mod machine;
mod nodes;
mod work;

pub use effect::{
    ClaimCounters, ClaimEffectKind, ClaimInput, CreateClaim, DeleteClaim, FOREIGN_CLAIM_REASON, PodEvent,
};
pub use machine::ClaimController;
pub use nodes::AskNode;
