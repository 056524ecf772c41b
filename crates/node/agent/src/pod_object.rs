//! A pod with its classic claims, which Kubernetes' own types leave out.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use lazaret_api::read_classic_pod;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// By the name that an entry of the pod has: the name of the claim, and whether it was made for the pod.
pub(crate) type ClassicClaims = BTreeMap<String, (String, bool)>;

/// A pod as this node reads it.
#[derive(Clone, Debug)]
pub(crate) struct PodObject {
    pub(crate) pod: Pod,
    pub(crate) classic: ClassicClaims,
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        let classic = classic_claims(&object);
        let pod = Pod::deserialize(object).map_err(D::Error::custom)?;
        Ok(Self { pod, classic })
    }
}

/// Most pods have none, and are not read a second time.
fn classic_claims(object: &Value) -> ClassicClaims {
    let entries = object["spec"]["resourceClaims"].as_array();
    let is_classic = |entry: &Value| !entry["template"].is_null() || !entry["classicClaimName"].is_null();
    if !entries.is_some_and(|entries| entries.iter().any(is_classic)) {
        return ClassicClaims::new();
    }
    let Some(pod) = read_classic_pod(object.to_string().as_bytes()) else { return ClassicClaims::new() };
    let named = pod.claims.iter().filter_map(|entry| {
        Some((entry.name.to_string(), (entry.claim_name(&pod)?.to_string(), entry.is_generated())))
    });
    named.collect()
}

impl Resource for PodObject {
    type DynamicType = ();
    type Scope = <Pod as Resource>::Scope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        <Pod as Resource>::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        <Pod as Resource>::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        <Pod as Resource>::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        <Pod as Resource>::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.pod.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.pod.metadata
    }
}
