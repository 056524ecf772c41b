//! Devices of classic claims, for a fleet: taints reach them, and the pods that use them, like any other.
//!
//! A driver names its device in the attributes `pool` and `device` of an allocated claim. To the fleet such a claim is one that holds this device, under a
//! name that no claim of `resource.k8s.io` can have; no slice speaks for the device, so its name is all that is known of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_api::{CLASSIC_GROUP, read_classic_claim, read_classic_pod};
use lazaret_classic::{Phase, ResourceClaim as Classic};
use lazaret_fleet::{Fleet, Input};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, ObjectKey, PodClaim, ResourceClaim, Text,
};
use lazaret_runtime::{CLAIMS, CLASSIC_CLAIMS, Model, News, Object, PODS};

use super::read::may_have_claims;

/// The attributes that name a device.
const POOL: &str = "pool";
const DEVICE: &str = "device";

/// The claims that the fleet was told of, as it knows them.
#[derive(Debug, Default)]
pub(crate) struct ClassicDevices {
    claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
}

impl ClassicDevices {
    /// Tells the fleet of classic claims; `false`: the news are of something else.
    pub(crate) fn hear(&mut self, fleet: &mut Fleet, news: &News) -> bool {
        if news.resource() != CLASSIC_CLAIMS {
            return false;
        }
        match news {
            News::Barred(..) => {}
            News::Set(_, object) => self.set(fleet, object),
            News::Gone(_, object) => self.remove(fleet, &known_as(&object.key)),
            News::Listed(_, objects, _) => {
                let keys: BTreeSet<ObjectKey> = objects.iter().map(|object| known_as(&object.key)).collect();
                let gone: Vec<ObjectKey> =
                    self.claims.keys().filter(|key| !keys.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.remove(fleet, key));
                objects.iter().for_each(|object| self.set(fleet, object));
            }
        }
        true
    }

    /// After the fleet was told of claims or pods: a list of claims has none of these, and a pod names none of them.
    pub(crate) fn add(&self, fleet: &mut Fleet, news: &News) {
        match news {
            News::Listed(resource, ..) if *resource == CLAIMS => {
                self.claims.values().for_each(|claim| fleet.apply(Input::Claim(claim.clone())));
            }
            News::Listed(resource, objects, _) if *resource == PODS => {
                objects.iter().for_each(|object| add_to_pod(fleet, object));
            }
            News::Set(resource, object) if *resource == PODS => add_to_pod(fleet, object),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => {}
        }
    }

    fn set(&mut self, fleet: &mut Fleet, object: &Object) {
        let claim = read_classic_claim(object.json()).and_then(|claim| holding(&claim));
        match claim.map(Arc::new) {
            Some(claim) => {
                if self.claims.insert(claim.key.clone(), claim.clone()).as_ref() != Some(&claim) {
                    fleet.apply(Input::Claim(claim));
                }
            }
            None => self.remove(fleet, &known_as(&object.key)),
        }
    }

    fn remove(&mut self, fleet: &mut Fleet, key: &ObjectKey) {
        if self.claims.remove(key).is_some() {
            fleet.apply(Input::ClaimGone(key.clone()));
        }
    }
}

/// No claim of `resource.k8s.io` has a slash in its name.
fn known_as(key: &ObjectKey) -> ObjectKey {
    ObjectKey { namespace: key.namespace.clone(), name: format!("{CLASSIC_GROUP}/{}", key.name).into() }
}

/// A claim that holds a device which it names.
fn holding(claim: &Classic) -> Option<ResourceClaim> {
    let (pool, device) = (claim.status.attributes.get(POOL)?, claim.status.attributes.get(DEVICE)?);
    if claim.status.phase == Phase::Pending || device.is_empty() {
        return None;
    }
    let driver = claim.status.driver_name.clone();
    let result = DeviceResult {
        request: Text::default(),
        device: DeviceId { driver, pool: pool.clone(), device: device.clone() },
        admin_access: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed_capacity: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    let pods = claim.status.reserved_for.iter().filter(|user| user.is_pod());
    let pods = pods.map(|user| Consumer {
        api_group: Text::default(),
        resource: "pods".into(),
        name: user.name.clone(),
        uid: user.uid.clone(),
    });
    Some(ResourceClaim {
        key: known_as(&claim.key),
        uid: claim.uid.clone(),
        deleting: claim.deleting,
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        reserved_for: pods.collect(),
        ..ResourceClaim::default()
    })
}

/// Tells the fleet of a pod again, with its classic claims among the others.
fn add_to_pod(fleet: &mut Fleet, object: &Object) {
    if !may_have_claims(object.json()) {
        return;
    }
    let Some(classic) = read_classic_pod(object.json()).filter(|pod| !pod.claims.is_empty()) else { return };
    let Ok(Model::Pod(known)) = object.model() else { return };
    let mut pod = (**known).clone();
    pod.claims.extend(classic.claims.iter().filter_map(|entry| {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: entry.claim_name(&classic)? };
        Some(PodClaim { name: entry.name.clone(), source: ClaimSource::Claim(known_as(&key).name) })
    }));
    fleet.apply(Input::Pod(Arc::new(pod)));
}
