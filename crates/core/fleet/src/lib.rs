//! The devices of a cluster at any time: which there are, which taints count for each and where these come from, which claim holds which device,
//! which pod uses which claim, and which devices each rule selects.
//!
//! Objects come in through [`Fleet::apply`] in any order, repeated, late, or not at all until the next [`Fleet::relist`]. The results come out in two
//! ways: [`Fleet::take_changes`] says which objects to look at again, [`Fleet::snapshot`] gives a numbered state that does not change. The cost of
//! both follows the changes, not the size of the fleet.
//!
//! **Invariant.** The state after any sequence of inputs depends only on the objects that are there now, and on the
//! attributes of devices that vanished while a claim held them (see [`Presence::Remembered`]). Every answer about
//! "does this rule mean this device" comes from one function, whoever asks.
//!
//! It must never know what becomes of a pod, what time it is, or what the API looks like.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod apart;
mod apply;
mod bits;
mod body;
mod changes;
mod claim_entry;
mod claim_names;
mod claims;
mod classes;
mod device;
mod device_index;
mod few;
mod fingerprint;
mod fleet;
mod gates;
mod ghosts;
mod guards;
mod hashes;
mod holds;
mod index;
mod input;
mod last_published;
mod layout;
mod marks;
mod noted;
mod out_of_service;
mod overrides;
mod patch;
mod patches;
mod places;
mod pmap;
mod pod_entry;
mod pods;
mod pool;
mod pool_entry;
mod pools;
mod presence;
mod publish;
mod query;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
mod rows;
mod rule;
mod rules;
mod schema;
mod selection;
mod selector;
mod shapes;
mod slice;
mod slice_entry;
mod slices;
mod snapshot;
mod source;
mod sparse;
mod sweeping;
mod table;
mod taints;
mod units;
mod usage;
mod value;
mod views;
mod vocabulary;

#[cfg(test)]
mod tests;

use lazaret_cel as cel;

pub use changes::Changes;
pub use claim_entry::ClaimIx;
pub use device::DeviceRef;
pub use fleet::Fleet;
pub use gates::Gates;
pub use guards::{About, GuardReach, Guards, Stopped, UnclearDevices};
pub use holds::{
    Reach, RuleHold, impact, impact_of_patch, impact_together, is_exempt, measure, reach_of, request_of,
    taint_hold, taint_reaches,
};
pub use input::{Input, Kind};
pub use out_of_service::count_out_of_service;
pub use pod_entry::PodIx;
pub use pool::{Generation, Invalid, Pool};
pub use presence::Presence;
pub use query::{EffectiveTaints, Held, PatchView, RuleView};
pub use selection::{SelectedResult, Selection};
pub use selector::{ClassSelectorError, ClassState, Problem};
pub use shapes::ShapeId;
pub use slice::SliceState;
pub use snapshot::Snapshot;
pub use source::{EffectiveTaint, Origin};
pub use taints::{TaintSetId, Taints};

/// The API's limit on devices in a slice. Devices beyond are not tracked, and their pool is [`Invalid`].
/// DEVIATION(bad-devices-stay-alone): devices beyond it do not count, and the pool is invalid.
pub const DEVICES_PER_SLICE_MAX: usize = 128;
