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
use lazaret_fleet::{Fleet, Input, Kind};
use lazaret_model::{
    Allocation, ClaimSource, Consumer, DeviceId, DeviceResult, ObjectKey, PodClaim, ResourceClaim, Text,
};
use lazaret_runtime::{CLASSIC_CLAIMS, News, Object};

use super::read::may_have_claims;
use crate::Sources;

/// The attributes that name a device.
const POOL: &str = "pool";
const DEVICE: &str = "device";

/// The claims that the fleet was told of, as it knows them.
#[derive(Debug, Default)]
pub(crate) struct ClassicDevices {
    claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
}

impl ClassicDevices {
    /// Tells the fleet what was heard, with classic claims among the others.
    pub(crate) fn feed(&mut self, sources: Sources, fleet: &mut Fleet, news: &News) {
        if !sources.has_classic() {
            sources.feed(fleet, news);
        } else if news.resource() == CLASSIC_CLAIMS {
            self.hear(fleet, news);
        } else {
            let claims = || self.claims.values().cloned().map(Input::Claim).collect();
            let more = |kind| if kind == Kind::Claim { claims() } else { Vec::new() };
            sources.feed_with(fleet, news, with_classic_claims, more);
        }
    }

    fn hear(&mut self, fleet: &mut Fleet, news: &News) {
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
    }

    fn set(&mut self, fleet: &mut Fleet, object: &Object) {
        let Some(claim) = read_classic_claim(object.json()) else {
            object.cannot_be_read(&"it has not the form of its kind", "the device of its last good version");
            return;
        };
        match holding(&claim).map(Arc::new) {
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

/// A pod with its classic claims among the others; anything else as it is.
fn with_classic_claims(input: Input, object: &Object) -> Input {
    let Input::Pod(known) = &input else { return input };
    let classic = Some(object.json()).filter(|json| may_have_claims(json)).and_then(read_classic_pod);
    let Some(classic) = classic.filter(|pod| !pod.claims.is_empty()) else { return input };
    let mut pod = (**known).clone();
    pod.claims.extend(classic.claims.iter().filter_map(|entry| {
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: entry.claim_name(&classic)? };
        Some(PodClaim { name: entry.name.clone(), source: ClaimSource::Claim(known_as(&key).name) })
    }));
    Input::Pod(Arc::new(pod))
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::{CLAIMS, PODS, Resource};

    use super::*;

    fn object(resource: &Resource, text: &str) -> Arc<Object> {
        Arc::new(Object::new(resource, text).unwrap())
    }

    #[test]
    fn the_fleet_is_told_once_of_a_pod_and_a_list_of_claims_leaves_classic_ones_where_they_are() {
        let pod = object(
            &PODS,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"p1"},
            "spec":{"nodeName":"node-1","resourceClaims":[{"name":"fabric","classicClaimName":"c"}]}}"#,
        );
        let claim = object(
            &CLASSIC_CLAIMS,
            r#"{"metadata":{"name":"c","namespace":"n","uid":"c1"},"spec":{"resourceClassName":"fabric"},
            "status":{"phase":"Allocated","driverName":"d","attributes":{"pool":"p","device":"x"},
            "reservedFor":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"p1"}]}}"#,
        );
        let (mut fleet, mut classic) = (Fleet::default(), ClassicDevices::default());
        let sources = Sources::new(true).with_classic(true);
        let mut revisions = |news: News| {
            let before = fleet.revision();
            classic.feed(sources, &mut fleet, &news);
            let device = DeviceId { driver: "d".into(), pool: "p".into(), device: "x".into() };
            let pods = fleet.holders(&device).flat_map(|claim| fleet.pods_of_claim(claim)).count();
            (fleet.revision() - before, pods)
        };
        assert_eq!(revisions(News::Set(CLASSIC_CLAIMS, claim)), (1, 0));
        assert_eq!(revisions(News::Set(PODS, Arc::clone(&pod))), (1, 1));
        assert_eq!(revisions(News::Listed(CLAIMS, Vec::new(), 2)).1, 1);
        assert_eq!(revisions(News::Listed(PODS, vec![pod], 3)).1, 1);
    }
}
