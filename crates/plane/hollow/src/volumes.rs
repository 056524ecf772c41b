//! Storage that is not there: every claim of a volume gets one that stores nothing, and loses it when it is deleted.

use std::collections::{BTreeMap, VecDeque};

use lazaret_kubelet::Agenda;
use lazaret_model::{ObjectKey, Timestamp};
use lazaret_runtime::{Call, EffectId, Outcome, PatchKind, Resource, VOLUME_CLAIMS, VOLUMES};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::effect::Effect;

/// The provisioner of simulated volumes.
pub(crate) const PROVISIONER: &str = "hollow.lazaret.dev/volumes";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// How long to wait until what was written is heard of before it is written again.
const RECHECK_MS: i64 = 30_000;

/// Binds claims. Hears of claims and volumes.
#[derive(Debug)]
pub struct Volumes {
    leads: bool,
    agenda: Agenda<ObjectKey>,
    effects: VecDeque<(EffectId, Effect)>,
    claims: BTreeMap<ObjectKey, SeenClaim>,
    /// Volumes that were made here, by the claim that they are for.
    volumes: BTreeMap<ObjectKey, SeenVolume>,
    /// The UID of what is written about, by effect.
    written: BTreeMap<EffectId, String>,
    /// The last write for a claim should be seen by then.
    settled: BTreeMap<ObjectKey, (String, Timestamp)>,
}

/// A claim as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenClaim {
    uid: String,
    deleting: bool,
    volume: String,
    class: Option<String>,
    phase: String,
    spec: Value,
}

/// A volume that was made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenVolume {
    name: String,
    uid: String,
    claim: ObjectKey,
    claim_uid: String,
    deleting: bool,
}

impl Volumes {
    /// Nothing has been seen yet.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Self {
        Self {
            leads: false,
            agenda: Agenda::new(in_flight_max),
            effects: VecDeque::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            written: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    /// A claim as it is now.
    pub fn hear_claim(&mut self, key: ObjectKey, seen: SeenClaim) {
        self.claims.insert(key.clone(), seen);
        self.agenda.touch(key);
    }

    /// No such claim any more.
    pub fn miss_claim(&mut self, key: &ObjectKey) {
        self.claims.remove(key);
        self.agenda.touch(key.clone());
    }

    /// All claims there are.
    pub fn list_claims(&mut self, claims: Vec<(ObjectKey, SeenClaim)>) {
        let before: Vec<ObjectKey> = std::mem::take(&mut self.claims).into_keys().collect();
        claims.into_iter().for_each(|(key, seen)| self.hear_claim(key, seen));
        before.into_iter().for_each(|key| self.agenda.touch(key));
    }

    /// A volume as it is now.
    pub fn hear_volume(&mut self, seen: SeenVolume) {
        let key = seen.claim.clone();
        self.volumes.insert(key.clone(), seen);
        self.agenda.touch(key);
    }

    /// No such volume any more.
    pub fn miss_volume(&mut self, name: &str) {
        let gone = self.volumes.iter().find(|(_, volume)| volume.name == name).map(|(key, _)| key.clone());
        if let Some(key) = gone {
            self.volumes.remove(&key);
            self.agenda.touch(key);
        }
    }

    /// All volumes there are.
    pub fn list_volumes(&mut self, volumes: Vec<SeenVolume>) {
        self.volumes.clear();
        volumes.into_iter().for_each(|volume| self.hear_volume(volume));
        self.claims.keys().cloned().for_each(|key| self.agenda.touch(key));
    }

    /// Decides what to do now.
    pub fn think(&mut self, now: Timestamp) {
        if !self.leads {
            return;
        }
        self.agenda.wake(now);
        while let Some(key) = self.agenda.next() {
            if self.agenda.is_paused(&key, now) {
                continue;
            }
            let Some((uid, calls)) = self.decide(&key) else {
                self.agenda.forget(&key);
                self.settled.remove(&key);
                continue;
            };
            match self.settled.get(&key) {
                Some((known, until)) if *known == uid && *until > now => {
                    let until = *until;
                    self.agenda.later(until, key);
                }
                _ => {
                    let id = self.agenda.launch(key);
                    self.written.insert(id, uid);
                    self.effects.push_back((id, Effect::Calls(calls)));
                }
            }
        }
    }

    /// Whether it may act.
    pub fn lead(&mut self, leading: bool) {
        self.leads = leading;
        if !leading {
            self.effects.clear();
            self.agenda.clear();
            self.written.clear();
            self.settled.clear();
        }
        let keys: Vec<ObjectKey> = self.claims.keys().chain(self.volumes.keys()).cloned().collect();
        keys.into_iter().for_each(|key| self.agenda.touch(key));
    }

    /// An effect has ended. The watches deliver its results.
    pub fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let done = matches!(outcome, Outcome::Done | Outcome::Gone);
        let uid = self.written.remove(&id);
        if let Some((key, uid)) = self.agenda.land(now, id, !done).zip(uid).filter(|_| done) {
            self.settled.insert(key, (uid, now.plus_millis(RECHECK_MS)));
        }
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<(EffectId, Effect)> {
        self.effects.pop_front()
    }

    /// When to think again.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.agenda.next_timer().map(|(at, _)| at)
    }

    /// The calls for a claim and its volume, with the UID of the object that they are about.
    fn decide(&self, key: &ObjectKey) -> Option<(String, Vec<Call>)> {
        let (claim, volume) = (self.claims.get(key), self.volumes.get(key));
        if let Some(volume) = volume
            && claim.is_none_or(|claim| claim.uid != volume.claim_uid)
        {
            let options = json!({"preconditions": {"uid": volume.uid}}).to_string();
            let call = Call::delete(&VOLUMES, "", &volume.name, options);
            return (!volume.deleting).then(|| (volume.uid.clone(), vec![call]));
        }
        let claim = claim.filter(|claim| claim.wants_volume())?;
        Some((claim.uid.clone(), bind(key, claim)))
    }
}

impl SeenClaim {
    /// Whether nobody else is meant to give it one: it names neither a volume nor, with an empty class, that it waits for one.
    fn wants_volume(&self) -> bool {
        let free = self.volume.is_empty() || self.volume == volume_name(&self.uid);
        !self.deleting && self.phase != "Bound" && free && self.class.as_deref() != Some("")
    }

    /// Reads a claim's JSON.
    #[must_use]
    pub fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Metadata,
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }
        let wire: Wire = serde_json::from_slice(json).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            uid: wire.metadata.uid,
            deleting: wire.metadata.deletion_timestamp.is_some(),
            volume: text(&wire.spec["volumeName"]).unwrap_or_default(),
            class: text(&wire.spec["storageClassName"]),
            phase: text(&wire.status["phase"]).unwrap_or_default(),
            spec: wire.spec,
        })
    }
}

impl SeenVolume {
    /// Reads a volume's JSON; `None` for those of others.
    #[must_use]
    pub fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Metadata,
            spec: Value,
        }
        let wire: Wire = serde_json::from_slice(json).ok()?;
        let ours = wire.metadata.annotations.get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
        let claim = &wire.spec["claimRef"];
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        ours.then(|| Self {
            claim: ObjectKey::new(text("namespace"), text("name")),
            claim_uid: text("uid").to_owned(),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            name: wire.metadata.name,
            uid: wire.metadata.uid,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// The requests that make a volume for a claim and bind the two, each with the claim's UID.
fn bind(key: &ObjectKey, claim: &SeenClaim) -> Vec<Call> {
    let name = volume_name(&claim.uid);
    let modes = &claim.spec["accessModes"];
    let capacity = json!({"storage": claim.spec["resources"]["requests"]["storage"]});
    let (namespace, claim_name) = (&*key.namespace, &*key.name);
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": capacity, "accessModes": modes, "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": claim.spec["volumeMode"], "storageClassName": claim.class,
            "hostPath": {"path": format!("/hollow/{name}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace, "name": claim_name, "uid": claim.uid,
            },
        },
    });
    if claim.class.is_none()
        && let Some(spec) = volume["spec"].as_object_mut()
    {
        spec.remove("storageClassName");
    }
    let bound = json!({
        "metadata": {
            "uid": claim.uid,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"volumeName": name},
    });
    let status = json!({
        "metadata": {"uid": claim.uid},
        "status": {"phase": "Bound", "accessModes": modes, "capacity": capacity},
    });
    let merge = |resource: &Resource, namespace: &str, name: &str, subresource: &str, body: &Value| {
        Call::patch(resource, namespace, name, subresource, PatchKind::Merge, body.to_string())
    };
    vec![
        Call::create(&VOLUMES, "", volume.to_string()),
        merge(&VOLUMES, "", &name, "status", &json!({"status": {"phase": "Bound"}})),
        merge(&VOLUME_CLAIMS, namespace, claim_name, "", &bound),
        merge(&VOLUME_CLAIMS, namespace, claim_name, "status", &status),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str, spec: Value) -> SeenClaim {
        let json = json!({"metadata": {"uid": uid}, "spec": spec, "status": {"phase": "Pending"}});
        SeenClaim::read(json.to_string().as_bytes()).unwrap()
    }

    fn volume(uid: &str) -> SeenVolume {
        let json = json!({
            "metadata": {"name": volume_name(uid), "uid": "v", "annotations": {PROVISIONED_BY: PROVISIONER}},
            "spec": {"claimRef": {"namespace": "n", "name": "c", "uid": uid}},
        });
        SeenVolume::read(json.to_string().as_bytes()).unwrap()
    }

    fn calls(volumes: &mut Volumes) -> usize {
        volumes.think(Timestamp::EPOCH);
        let mut count = 0;
        while let Some((id, Effect::Calls(calls))) = volumes.poll() {
            count += calls.len();
            volumes.acknowledge(Timestamp::EPOCH, id, Outcome::Done);
        }
        count
    }

    #[test]
    fn a_claim_is_bound_once_and_its_volume_goes_with_it() {
        let key = ObjectKey::new("n", "c");
        let mut volumes = Volumes::new(8);
        volumes.hear_claim(key.clone(), claim("u", json!({})));
        assert_eq!(calls(&mut volumes), 0, "nobody acts who does not lead");
        volumes.lead(true);
        assert_eq!(calls(&mut volumes), 4);
        volumes.hear_volume(volume("u"));
        let mut bound = claim("u", json!({"volumeName": "pvc-u"}));
        bound.phase = "Bound".into();
        volumes.hear_claim(key.clone(), bound);
        assert_eq!(calls(&mut volumes), 0, "it is bound");
        volumes.hear_claim(key.clone(), claim("other", json!({})));
        assert_eq!(calls(&mut volumes), 1, "the volume of the one before goes first");
        volumes.miss_volume("pvc-u");
        assert_eq!(calls(&mut volumes), 4, "then the new one gets its own");
        volumes.hear_volume(volume("other"));
        volumes.miss_claim(&key);
        assert_eq!(calls(&mut volumes), 1);
    }

    #[test]
    fn claims_that_are_for_others_are_left_alone() {
        for spec in [json!({"volumeName": "mine"}), json!({"storageClassName": ""})] {
            let mut volumes = Volumes::new(8);
            volumes.lead(true);
            volumes.hear_claim(ObjectKey::new("n", "c"), claim("u", spec.clone()));
            assert_eq!(calls(&mut volumes), 0, "{spec}");
        }
        let foreign = json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"name": "c"}}});
        assert_eq!(SeenVolume::read(foreign.to_string().as_bytes()), None);
    }
}
