//! The claim controller: makes the claims of pods, and cleans up after pods that are done. It reads, thinks for a
//! while, and writes on the condition that nothing changed meanwhile.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{
    AllocationMode, ClaimSource, ClaimSpec, Consumer, DeviceRequest, ObjectKey, Owner, Pod, Quantity,
    Request, RequestKind, ResourceClaim, Text,
};

use crate::{
    actors::workloads::Shape,
    api::Refused,
    coverage::Mark,
    palette,
    world::{Step, World},
};

/// It looks at what changed within so long.
const REACTION_MS_MAX: u32 = 300;
/// And again after so long when it could not do its work.
const RETRY_MS: u64 = 500;

/// What became of a claim.
#[derive(Debug)]
pub(crate) struct Cleanup {
    key: ObjectKey,
    version: u64,
    /// `None`: to be deleted.
    object: Option<ResourceClaim>,
}

/// What claims ask for: claims that ask for the same share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specs {
    /// By class and number of tolerations. Some numbers mean the same.
    by_number: BTreeMap<(usize, u32), Arc<ClaimSpec>>,
    distinct: Vec<Arc<ClaimSpec>>,
}

impl Specs {
    /// A claim for one device of a class, or for a share of one of the fabric's.
    pub(crate) fn new_claim(
        &mut self,
        key: ObjectKey,
        uid: Text,
        class: &str,
        tolerations: u32,
    ) -> ResourceClaim {
        let of = (palette::class_number(class), tolerations);
        let distinct = &mut self.distinct;
        let spec = self.by_number.entry(of).or_insert_with(|| {
            let spec = new_spec(class, tolerations);
            if let Some(known) = distinct.iter().find(|known| ***known == spec) {
                return Arc::clone(known);
            }
            distinct.push(Arc::new(spec));
            distinct[distinct.len() - 1].clone()
        });
        ResourceClaim { key, uid, spec: Arc::clone(spec), ..ResourceClaim::default() }
    }
}

fn new_spec(class: &str, tolerations: u32) -> ClaimSpec {
    let request = DeviceRequest {
        class: class.into(),
        mode: AllocationMode::Exact(1),
        tolerations: palette::tolerations(tolerations),
        capacity: (class == palette::FABRIC)
            .then(|| vec![(palette::BANDWIDTH.into(), Quantity::from_i64(1 + i64::from(tolerations % 4)))]),
        ..DeviceRequest::default()
    };
    ClaimSpec {
        requests: vec![Request { name: "r".into(), kind: RequestKind::Exactly(request) }],
        ..ClaimSpec::default()
    }
}

/// What the one request of a claim asks for.
pub(crate) fn request_of(claim: &ResourceClaim) -> Option<&DeviceRequest> {
    match claim.spec.requests.first().map(|request| &request.kind)? {
        RequestKind::Exactly(request) => Some(request),
        RequestKind::FirstAvailable(_) | RequestKind::Unknown => None,
    }
}

/// How much of a device's bandwidth a claim asks for; `None`: the whole device.
pub(crate) fn share_of(claim: &ResourceClaim) -> Option<i64> {
    request_of(claim)?.capacity.as_ref()?.first()?.1.as_i64()
}

/// Says in a pod what the claims of its entries are called.
pub(crate) fn resolve<'a>(pod: &mut Pod, extended: bool, made: impl Iterator<Item = (&'a Text, &'a Text)>) {
    for (entry, name) in made {
        if extended {
            pod.extended_claim = Some(name.clone());
            continue;
        }
        for claim in pod.claims.iter_mut().filter(|claim| claim.name == *entry) {
            if let ClaimSource::Template { resolved, .. } = &mut claim.source {
                *resolved = Some(Some(name.clone()));
            }
        }
    }
}

/// The owner that a pod is of its claims.
pub(crate) fn owner(pod: &Pod) -> Owner {
    Owner {
        group: palette::word(""),
        kind: palette::word("Pod"),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
    }
}

impl World {
    pub(crate) fn claim_controller_sees_pod(&mut self, key: &ObjectKey, at: u32, pod: Option<&Pod>) {
        let done = pod.is_none_or(|pod| pod.phase.is_finished());
        if done {
            let claims: Vec<u32> = self.workloads.claims_of(at).collect();
            for claim in claims {
                self.push_soon(REACTION_MS_MAX, Step::ReadClaim(self.api.claims.key(claim).clone()));
            }
        } else if pod.is_some_and(|pod| pod.deleting_since.is_none() && self.wants_claims(at, pod)) {
            self.push_soon(REACTION_MS_MAX, Step::MakeClaims(key.clone()));
        }
    }

    pub(crate) fn claim_controller_sees_claim(&mut self, key: &ObjectKey, claim: Option<&ResourceClaim>) {
        if claim.is_some_and(|claim| self.needs_cleaning(claim)) {
            self.push_soon(REACTION_MS_MAX, Step::ReadClaim(key.clone()));
        }
    }

    fn wants_claims(&self, at: u32, pod: &Pod) -> bool {
        let missing = pod
            .claims
            .iter()
            .any(|entry| matches!(entry.source, ClaimSource::Template { resolved: None, .. }));
        missing || (pod.extended_claim.is_none() && self.shape_of(at).is_some_and(|shape| shape.extended))
    }

    /// Makes what a pod's templates ask for and says so in its status.
    pub(crate) fn make_claims(&mut self, key: &ObjectKey) {
        let Some(at) = self.api.pods.number(key) else { return };
        let Some(stored) = self.api.pods.now(at) else { return };
        let pod = Arc::clone(stored.object);
        if pod.deleting_since.is_some() || pod.phase.is_finished() || !self.wants_claims(at, &pod) {
            return;
        }
        let Some(&Shape { extended, tolerations, .. }) = self.shape_of(at) else { return };
        let mut made: Vec<(Text, Text)> = Vec::new();
        for (entry, claim) in self.new_claims(&pod, extended, tolerations) {
            let claim_key = claim.key.clone();
            if self.api.claims.create(&mut self.api.versions, claim).is_err() {
                // The claim of a predecessor of the same name is still there.
                self.push(self.now + RETRY_MS, Step::MakeClaims(key.clone()));
                self.push(self.now + RETRY_MS / 2, Step::ReadClaim(claim_key));
                continue;
            }
            self.note_use(key, &claim_key);
            made.push((entry, claim_key.name));
        }
        if made.is_empty() {
            return;
        }
        let made = made.iter().map(|(entry, name)| (entry, name));
        self.api.edit_pod(key, &pod.uid, |pod| resolve(pod, extended, made));
    }

    /// The claims that a pod lacks, each with the entry of the pod that it is for.
    pub(crate) fn new_claims(
        &mut self,
        pod: &Pod,
        extended: bool,
        tolerations: u32,
    ) -> Vec<(Text, ResourceClaim)> {
        let entries = pod.claims.iter().filter_map(|entry| match &entry.source {
            ClaimSource::Template { template, resolved: None } => {
                Some((entry.name.clone(), template.clone()))
            }
            ClaimSource::Template { .. } | ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        });
        let entries: Vec<(Text, Text)> = if extended {
            vec![(palette::word("extended"), palette::word(palette::CLASSES[0]))]
        } else {
            entries.collect()
        };
        let new = entries.into_iter().map(|(entry, class)| {
            let key = ObjectKey {
                namespace: pod.key.namespace.clone(),
                name: palette::text(format_args!("{}-{entry}", pod.key.name)),
            };
            let uid = self.api.new_uid();
            let mut claim = self.workloads.specs.new_claim(key, uid, &class, tolerations);
            claim.owner = Some(owner(pod));
            claim.extended_resource = extended;
            (entry, claim)
        });
        new.collect()
    }

    fn is_live(&self, namespace: &Text, name: &Text, uid: &Text) -> bool {
        let stored = self.api.pods.number_of(namespace, name).and_then(|pod| self.api.pods.now(pod));
        stored.is_some_and(|stored| stored.object.uid == *uid)
    }

    fn uses(&self, claim: &ResourceClaim, user: &Consumer) -> bool {
        let pods = &self.api.pods;
        let unfinished = |pod: u32| pods.now(pod).filter(|stored| !stored.object.phase.is_finished());
        if user.resource == "podgroups" {
            let mut members = self.workloads.pods_of(&claim.key.namespace, &user.name);
            return members.any(|key| pods.number(key).and_then(unfinished).is_some())
                || self.is_prepared(claim, None);
        }
        let user_now = pods.number_of(&claim.key.namespace, &user.name).and_then(unfinished);
        user_now.is_some_and(|stored| stored.object.uid == user.uid)
            || self.is_prepared(claim, Some(&user.uid))
    }

    fn is_orphan(&self, claim: &ResourceClaim) -> bool {
        // A group lives as long as its workload: for ever.
        let owner = claim.owner.as_ref().filter(|owner| owner.kind == "Pod");
        owner.is_some_and(|owner| !self.is_live(&claim.key.namespace, &owner.name, &owner.uid))
    }

    /// Whether [`Self::cleaned`] would change anything.
    fn needs_cleaning(&self, claim: &ResourceClaim) -> bool {
        claim.reserved_for.iter().any(|user| !self.uses(claim, user))
            || (claim.reserved_for.is_empty() && self.is_orphan(claim))
    }

    /// A claim without the users that are done; without an allocation when none is left; `None` when its owner is
    /// gone as well.
    fn cleaned(&self, claim: &ResourceClaim) -> Option<ResourceClaim> {
        let mut cleaned = claim.clone();
        cleaned.reserved_for.retain(|user| self.uses(claim, user));
        if cleaned.reserved_for.is_empty() && !claim.reserved_for.is_empty() {
            cleaned.allocation = None;
        }
        (!self.is_orphan(claim) || !cleaned.reserved_for.is_empty()).then_some(cleaned)
    }

    pub(crate) fn read_claim(&mut self, key: &ObjectKey) {
        let Some(stored) = self.api.claims.get(key) else { return };
        if !self.needs_cleaning(stored.object) {
            return;
        }
        let object = self.cleaned(stored.object);
        let cleanup = Cleanup { key: key.clone(), version: stored.version, object };
        self.push_soon(self.config.latency_ms, Step::WriteClaim(Box::new(cleanup)));
    }

    pub(crate) fn write_claim(&mut self, cleanup: Cleanup) {
        let Cleanup { key, version, object } = cleanup;
        let api = &mut self.api;
        let result = match object {
            Some(object) => api.claims.update(&mut api.versions, version, object).map(|_| ()),
            None => match api.claims.get(&key) {
                Some(stored) if stored.version == version => {
                    api.claims.remove(&mut api.versions, &key);
                    Ok(())
                }
                Some(_) => Err(Refused::Conflict),
                None => Err(Refused::NotFound),
            },
        };
        if result == Err(Refused::Conflict) {
            self.coverage.hit(Mark::Conflict);
            self.push_soon(REACTION_MS_MAX, Step::ReadClaim(key));
        }
    }
}
