//! Which DeviceTaintRules of Kubernetes a DeviceTaintPolicy stands for now, and which policies a ResourceSlicePatch.
//!
//! Kubernetes' own rules select devices by name, and its controller evicts for every rule with effect `NoExecute`, at once and without pace. A policy
//! selects by class and expression too, and its pods leave at its pace. So a policy becomes rules with effect `NoSchedule`, which Kubernetes' scheduler
//! obeys, one for each selected device; another controller evicts. Once no claim holds a selected device, the rules turn `NoExecute` if the policy
//! says so, which keeps late pods off.
//!
//! [`Policies`] is a state machine over a [`Fleet`](lazaret_fleet::Fleet), in which policies are the rules, and over the rules of Kubernetes that policies own.
//!
//! [`Patches`] does the same one step before: it brings the policies that patches own to what the patches want.
//!
//! **Invariant.** Only rules that a policy owns are changed, and only policies that a patch owns, each with its UID as precondition. No rule evicts
//! before its policy says that its devices are idle. A policy has at most [`RULES_PER_POLICY_MAX`] rules. A status counts what the watch showed, never
//! what is about to be written.
//!
//! It must never know what the API looks like on the wire, how a write is done, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;

mod attempts;
mod effect;
mod machine;
mod owned;
mod patches;
mod progress;
mod todo;
mod wanted;

pub use effect::{Effect, EffectKind, Report};
pub use lazaret_machine::{EffectId, Outcome};
pub use machine::{Input, Policies};
pub use owned::Owned;
pub use patches::{
    CompiledPatch, OwnedPolicy, PatchEffect, PatchInput, PatchReport, Patches, WantedPolicy, compile_patch,
};
pub use wanted::{Compiled, Owner, RULES_PER_POLICY_MAX, Wanted, compile, rule_name};
