//! The parts of `std`'s prelude that `no_std` lacks, and the types that every file here uses.

pub(crate) use alloc::{
    borrow::ToOwned,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec,
    vec::Vec,
};

pub(crate) use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
pub(crate) use lazaret_model::Timestamp;
pub(crate) use serde_json::{Value, json};

pub(crate) use crate::{
    controller::{Context, Plan, Rules},
    effect::{EventType, Note, PatchKind, Propagation, Write},
    key::{ByKey, Key},
    lean::Pod,
    object::Object,
    resource::{self, Resource},
    world::{Change, World},
};
