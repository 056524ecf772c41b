//! People: what they say of incidents and devices, and what they do to the objects of incidents. Users who make a pod with a claim of their own, and delete the
//! pod before it runs: an allocation of the claim that is still on its way to the server is as valid as when it was decided. Tenants who write into the
//! annotations and labels of their pods what is not so.
//!
//! Our server permits a tenant a wish about evictions and a group, and refuses marks of replacements. Where another API server lets such a mark through, no
//! controller believes it: it has no proof by the key of the installation.

use std::sync::Arc;

use lazaret_lifecycle::{ChildKind, PersonAct, Report, Signal, Source};
use lazaret_model::{
    ClaimSource, DeviceTaintRule, Effect, EvictionPreference, ObjectKey, Pod, PodClaim, Text,
};
use lazaret_replacement::{Mark as PodMark, Plan, Record};

use crate::{
    actors::health::HealthEvent,
    api::{PodMetadata, PodNotes, wall},
    coverage::Mark,
    palette,
    world::World,
};

/// The same is reported at most as often in a row.
const REPORTS_MAX: u32 = 3;
/// As many users make pods and delete them.
const USERS: u32 = 8;
/// The number of tolerations that their claims have: none.
const TOLERATIONS: u32 = 0;
/// Groups that tenants invent, in a namespace.
const GROUPS: u32 = 3;
/// The longest wish, in seconds.
const WISH_SECS_MAX: u32 = 40;

impl World {
    /// A person says something of an incident, or deletes it.
    pub(crate) fn person(&mut self, number: u32, how: u32) {
        let count = self.health.incidents.len();
        let Some(name) = self.health.incidents.keys().nth(number as usize % count.max(1)).cloned() else {
            return;
        };
        let Some(mut stored) = self.health.incidents.get(&name).cloned() else { return };
        self.coverage.hit(Mark::PersonActed);
        let act = Some(PersonAct { at: wall(self.now), who: "jo".into(), why: Text::default() });
        match how % 8 {
            0 => return self.remove_incident(&name, &stored.uid),
            1 => stored.acts.acknowledged = act,
            2..=4 => stored.acts.repaired = act,
            _ => stored.acts.abandoned = act,
        }
        if let Some(entry) = self.health.stages.get_mut(&stored.uid) {
            entry.1 = true;
        }
        stored.version = self.version();
        self.store_incident(stored);
    }

    /// A person reports trouble of a device, maybe more than once: each time by another object.
    pub(crate) fn report(&mut self, device: u32, key: u32, times: u32) {
        if self.config.healed == 0 {
            return;
        }
        let devices = u32::try_from(self.api.catalog.devices()).unwrap_or(u32::MAX).max(1);
        for _ in 0..=times % REPORTS_MAX {
            let uid = self.api.new_uid();
            let name = Text::from(format!("report-{uid}"));
            let signal = Signal {
                device: self.api.catalog.id(device % devices),
                key: palette::KEYS[key as usize % palette::KEYS.len()].into(),
                value: Text::default(),
                source: Source::Person,
                at: wall(self.now),
                lasts: false,
                message: "heard it".into(),
            };
            let report = Report { name: name.clone(), uid, until: None, signal };
            self.coverage.hit(Mark::Reported);
            self.health.reports.insert(name, report.clone());
            self.health_tell(HealthEvent::Report(report));
        }
    }

    /// Somebody else takes an object away that was made for an incident, or the effect of its taint.
    pub(crate) fn take_away(&mut self, number: u32, how: u32) {
        let owner = |rule: &DeviceTaintRule| self.health.owners.get(&rule.uid).map(|(_, kind)| *kind);
        let rules = self.api.rules.iter().map(|stored| stored.object);
        let rules = rules.filter_map(|rule| Some((owner(rule)?, rule.name.clone())));
        let jobs = self.health.jobs.keys().map(|name| (ChildKind::Job, name.clone()));
        let all: Vec<(ChildKind, Text)> = rules.chain(jobs).collect();
        let Some((kind, name)) = all.get(number as usize % all.len().max(1)).cloned() else { return };
        self.coverage.hit(Mark::TakenAway);
        if let Some(job) = self.health.jobs.get(&name) {
            // It runs again: nobody knows how the first one ended.
            self.health.made.remove(&(job.owner.uid.clone(), name.clone()));
            self.remove_job(&name);
        } else if kind == ChildKind::Rule && how.is_multiple_of(3) {
            self.api.edit_rule(self.now, &name, |rule| rule.taint.effect = Effect::None);
        } else {
            self.api.rules.remove(&mut self.api.versions, &name);
        }
    }
}

/// A user makes a pod, and its claim if that is not there; or deletes the pod.
pub(crate) fn hesitate(world: &mut World, number: u32, makes: bool) {
    let namespace = palette::word(palette::NAMESPACES[number as usize % palette::NAMESPACES.len()]);
    let key = ObjectKey { namespace, name: palette::text(format_args!("h{}", number % USERS)) };
    if !makes {
        // It may be gone, or may never have been made.
        let _begun = world.api.delete_pod(world.now, &key, None);
        return;
    }
    if world.api.pods.get(&key).is_some() {
        return;
    }
    if world.api.claims.get(&key).is_none() {
        let uid = world.api.new_uid();
        let claim = world.workloads.specs.new_claim(key.clone(), uid, palette::CLASSES[0], TOLERATIONS);
        world.api.claims.put(&mut world.api.versions, claim);
    }
    let uid = world.api.new_uid();
    let metadata = vec![(0, PodMetadata::default())];
    world.api.note_pod(&uid, PodNotes { metadata, created: world.now, ..PodNotes::default() });
    let claim = PodClaim { name: palette::word("own"), source: ClaimSource::Claim(key.name.clone()) };
    world.api.pods.put(&mut world.api.versions, Pod { key, uid, claims: vec![claim], ..Pod::default() });
}

/// The tenant of a pod writes a lie into it.
pub(crate) fn lie(world: &mut World, number: u32, what: u32, how: u32) {
    let count = world.api.pods.len();
    let found = world.api.pods.iter().nth(number as usize % count.max(1));
    let Some(pod) = found.map(|stored| Arc::clone(stored.object)) else { return };
    match what % 4 {
        0 if world.config.protected != 0 => {
            let wish = wish(how);
            world.api.edit_pod(&pod.key, &pod.uid, |pod| pod.eviction_preference = Some(wish));
        }
        1 if world.config.protected != 0 => {
            let group = palette::text(format_args!("lie-{}", how % GROUPS));
            world.api.edit_pod(&pod.key, &pod.uid, |pod| pod.eviction_group = Some(group));
        }
        // Our server changes no mark for a tenant.
        2 | 3 if world.config.once == 0 && world.config.replaced != 0 => {
            let Some(mark) = forged_mark(world, &pod, how) else { return };
            world.api.edit_metadata(&pod.key, &pod.uid, |known| known.forged = Some(mark), |_| {});
            world.coverage.hit(Mark::ForgedMark);
        }
        _ => return,
    }
    world.coverage.hit(Mark::Lied);
}

/// The mark of another replacement, as it is or about another pod, as that of the copy or of the one that was released.
fn forged_mark(world: &World, liar: &Pod, how: u32) -> Option<PodMark> {
    let records = &world.replacements.records;
    let mut record = records.values().nth(how as usize % records.len().max(1))?.clone();
    if how.is_multiple_of(2) {
        let pods = world.api.pods.iter().map(|stored| stored.object);
        let mut victims = pods.filter(|pod| pod.key.namespace == liar.key.namespace && pod.uid != liar.uid);
        let victim = victims.next()?;
        let (key, uid) = (victim.key.clone(), victim.uid.clone());
        let plan = Plan::Copy { name: liar.key.name.clone() };
        record = Record { pod: key, uid, node: victim.node.clone().unwrap_or_default(), plan, ..record };
    }
    Some(if (how / 2).is_multiple_of(3) { PodMark::Released(record) } else { PodMark::Copy(record) })
}

fn wish(how: u32) -> EvictionPreference {
    match how % 3 {
        0 => EvictionPreference::Immediate,
        1 => EvictionPreference::AllowCompletion,
        _ => EvictionPreference::Seconds(how / 3 % WISH_SECS_MAX),
    }
}
