//! Writing claims: one write at a time for each, for all pods that want it.

use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{Allocation, Consumer, ObjectKey, Uid};

use crate::{
    CONSUMERS_MAX, Claim, Pod,
    absorb::made_for_pod,
    causes::Cause,
    claim_writes::{CERTAIN_MS, NEWS_MS_MAX, TRIES_MAX, Write},
    effect::{EffectKind, Outcome, ReleaseClaim, Reply, ReserveClaim},
    outbox::Purpose,
    state::{Scheduler, TimerKey},
};

/// Pods of one group are one user.
fn distinct(pods: &BTreeMap<u32, Consumer>) -> Vec<Consumer> {
    let mut users: Vec<Consumer> = Vec::with_capacity(pods.len());
    for user in pods.values() {
        if users.iter().all(|known| known.uid != user.uid) {
            users.push(user.clone());
        }
    }
    users
}

impl Scheduler {
    // DEVIATION(shared-claim-in-flight): Kubernetes makes further pods wait until the first is bound.
    /// The allocation of a claim, even if only this scheduler knows it yet.
    pub(crate) fn allocation_of(&self, claim: &Claim) -> Option<Arc<Allocation>> {
        let decided = || {
            let entry = self.claim_writes.get(&claim.claim.key)?;
            entry.allocation.clone().filter(|_| entry.uid == claim.claim.uid)
        };
        claim.claim.allocation.clone().or_else(decided)
    }

    /// A pod is to have a claim, with these devices if it has none yet. Whether it has to wait for a write.
    pub(crate) fn want_claim(
        &mut self,
        pod_ix: u32,
        pod: &Pod,
        claim: &Claim,
        allocation: Option<Allocation>,
    ) -> bool {
        let has_it = claim.claim.allocation.is_some() && self.claim_cache.is_reserved_for(claim, pod);
        // It is not so for long if it is about to be taken from the pod, or was, unseen.
        let stays = self.claim_writes.get(&claim.claim.key).is_none_or(|entry| {
            entry.uid != claim.claim.uid
                || entry.is_seen(claim.version)
                    && !entry.is_uncertain(claim.version, self.now)
                    && entry.write.is_none()
                    && !entry.takes_from(&pod.uid)
        });
        if allocation.is_none() && has_it && stays {
            return false;
        }
        let consumer = self.claim_cache.consumer(pod, &claim.claim.key);
        let entry = self.claim_writes.open(&claim.claim.key, &claim.claim.uid);
        if let Some(allocation) = allocation {
            self.overlay.insert(&claim.claim.uid, &allocation);
            entry.allocation = Some(Arc::new(allocation));
            entry.written = false;
        }
        entry.unwanted.retain(|uid| *uid != consumer.uid);
        entry.deallocate = None;
        entry.wanted.insert(pod_ix, consumer);
        true
    }

    /// A pod is not to have a claim after all.
    pub(crate) fn drop_reservation(&mut self, pod_ix: u32, pod: &Pod, key: &ObjectKey) {
        let may_be_bound = self.may_be_bound(pod_ix);
        // A claim of a group stays reserved for its other pods until the group is gone.
        let is_shared = self.claim_cache.sharing(pod, key).is_some();
        let reserved = !is_shared
            && self.claim_cache.get(key).is_some_and(|claim| self.claim_cache.is_reserved_for(claim, pod));
        let (users, uid) = match self.claim_cache.get(key) {
            Some(claim) => (claim.claim.reserved_for.len(), Some(claim.claim.uid.clone())),
            None => (0, None),
        };
        let mut leaves_room = false;
        match self.claim_writes.get_mut(key) {
            Some(entry) => {
                leaves_room = users + entry.coming() >= CONSUMERS_MAX;
                let waited = entry.wanted.remove(&pod_ix).is_some();
                let written = entry.write.as_mut().is_some_and(|write| write.pods.remove(&pod_ix).is_some());
                // Reserved by a write that is done, and not seen yet, or by one that may still be.
                if !may_be_bound && !is_shared && (reserved || written || !waited) {
                    entry.unwanted.push(pod.uid.clone());
                }
            }
            None => {
                if let Some(uid) = uid.filter(|_| reserved && !may_be_bound) {
                    self.claim_writes.open(key, &uid).unwanted.push(pod.uid.clone());
                }
            }
        }
        self.write_claim(key);
        self.wake_refused(key, leaves_room);
    }

    /// No pod is to have a claim after all. An allocation that was written, or may have been, counts until it is seen: the claim may stay.
    pub(crate) fn unwant_all(&mut self, key: &ObjectKey) {
        let Some(entry) = self.claim_writes.get_mut(key) else { return };
        entry.wanted.clear();
        entry.unwanted.clear();
        entry.deallocate = None;
        if let Some(write) = &mut entry.write {
            write.pods.clear();
        }
        match self.claim_cache.get(key).filter(|claim| claim.claim.uid == entry.uid).cloned() {
            Some(claim) => self.close_if_seen(key, &claim),
            // It is gone, or not seen yet, and then it was not written.
            None => {
                let uid = entry.uid.clone();
                self.free(&uid);
                self.claim_writes.close(key);
            }
        }
    }

    /// Wakes pods that were refused because of writes in flight for a claim, if none is left. A write that is done and
    /// not seen yet wakes them when it is.
    fn wake_refused(&mut self, key: &ObjectKey, leaves_room: bool) {
        let seen = self.claim_cache.get(key).map_or(u64::MAX, |claim| claim.version);
        let settled = self.claim_writes.get(key).is_none_or(|entry| {
            entry.is_seen(seen) && !entry.frees(seen) && (leaves_room || entry.coming() == 0)
        });
        if settled {
            self.wake_users(key, None);
        }
    }

    /// The devices of a claim that no other pod uses are to be released.
    pub(crate) fn give_back(&mut self, claim: &Claim, pod: &Pod) {
        let user = self.claim_cache.user(pod, claim).clone();
        let entry = self.claim_writes.open(&claim.claim.key, &claim.claim.uid);
        // A write that is not seen yet may have reserved it for a pod.
        if entry.coming() == 0 && entry.is_seen(claim.version) {
            entry.deallocate = Some(user);
            self.write_claim(&claim.claim.key);
        }
    }

    /// A claim in the cache has changed.
    pub(crate) fn claim_seen(&mut self, key: &ObjectKey) {
        let Some(entry) = self.claim_writes.get_mut(key) else { return self.proceed_users(key) };
        let Some(claim) = self.claim_cache.get(key).filter(|claim| claim.claim.uid == entry.uid) else {
            return self.drop_claim(key, "the claim is gone");
        };
        if let Some(given) = &claim.claim.allocation {
            if let Some(decided) = entry.allocation.take() {
                if decided.results != given.results {
                    let uid = entry.uid.clone();
                    self.free(&uid);
                    return self.drop_claim(key, "the claim was allocated by somebody else");
                }
                self.overlay.remove(&entry.uid);
            }
        } else if entry.written && claim.version >= entry.version && entry.write.is_none() {
            // Written, and released by another client before it was seen.
            entry.allocation = None;
            let uid = entry.uid.clone();
            self.free(&uid);
            return self.drop_claim(key, "the claim was given back by somebody else");
        }
        self.write_claim(key);
        self.proceed_users(key);
    }

    /// Devices that were as good as given to a claim are free again.
    pub(crate) fn free(&mut self, claim: &Uid) {
        if self.overlay.contains(claim) {
            self.overlay.remove(claim);
            self.happened(Cause::Devices);
        }
    }

    fn proceed_users(&mut self, key: &ObjectKey) {
        let owner = self.claim_cache.get(key).and_then(|claim| made_for_pod(claim));
        let users = self.users_of(key, owner.as_ref());
        users.into_iter().for_each(|pod| self.proceed(pod));
    }

    /// The time of a claim has come. One that was made here and has not been seen since is gone.
    pub(crate) fn claim_due(&mut self, key: &ObjectKey) {
        let unseen = self.claim_writes.get(key).is_some() && self.claim_cache.get(key).is_none();
        if unseen {
            self.drop_claim(key, "the claim was made and is not seen");
        } else {
            self.write_claim(key);
        }
    }

    /// Gives out the next write of a claim, unless one is in flight or it is not the time.
    pub(crate) fn write_claim(&mut self, key: &ObjectKey) {
        let Some(claim) = self.claim_cache.get(key).cloned() else { return };
        let Some(entry) = self.claim_writes.get_mut(key) else { return };
        if entry.write.is_some() || entry.uid != claim.claim.uid {
            return;
        }
        if let Some((version, until)) = entry.held_up {
            if claim.version <= version && self.now < until {
                return;
            }
            entry.held_up = None;
        }
        // A claim that may have been taken from a pod is reserved for it once more.
        let seen = entry.is_seen(claim.version) && !entry.is_uncertain(claim.version, self.now);
        let had = |uid: &str| {
            let reserved = || claim.claim.reserved_for.iter().any(|c| *c.uid == *uid);
            seen && claim.claim.allocation.is_some() && reserved()
        };
        let done: Vec<u32> =
            entry.wanted.iter().filter(|(_, consumer)| had(&consumer.uid)).map(|(pod, _)| *pod).collect();
        done.iter().for_each(|pod| {
            entry.wanted.remove(pod);
        });
        let version = claim.version.max(entry.version);
        if !self.leads {
            self.close_if_seen(key, &claim);
        } else if !entry.wanted.is_empty() {
            self.reserve(key, &claim, version);
        } else if !entry.unwanted.is_empty() || entry.deallocate.is_some() {
            self.send_release(key, &claim, version);
        } else {
            self.close_if_seen(key, &claim);
        }
        done.into_iter().for_each(|pod| self.claim_ready(pod, key));
    }

    /// Reserves a claim, with the devices that were decided for it, if none of them was given to another claim meanwhile.
    fn reserve(&mut self, key: &ObjectKey, claim: &Claim, version: u64) {
        match self.claim_writes.get(key).and_then(|entry| self.taken_meanwhile(entry)) {
            None => self.send_reservation(key, claim, version),
            Some(holder) => {
                let (namespace, name) = (&holder.namespace, &holder.name);
                let why = format!("a device of it was allocated to resourceclaim {namespace}/{name}");
                self.drop_claim(key, &why);
            }
        }
    }

    fn send_reservation(&mut self, key: &ObjectKey, claim: &Claim, version: u64) {
        let Some(entry) = invariant!(self.claim_writes.get_mut(key), "a claim that is written has an entry")
        else {
            return;
        };
        let pods = core::mem::take(&mut entry.wanted);
        let allocation = entry.allocation.clone().filter(|_| !entry.written);
        let timestamp = Some(self.now.truncated_to_secs());
        let allocation =
            allocation.map(|given| Arc::new(Allocation { timestamp, ..Allocation::clone(&given) }));
        let write = ReserveClaim {
            claim: key.clone(),
            uid: entry.uid.clone(),
            version,
            add_finalizer: allocation.is_some() && !claim.has_finalizer,
            reserve_for: distinct(&pods),
            allocation,
        };
        let allocates = write.allocation.is_some();
        let effect = self.outbox.launch(Purpose::Claim(key.clone()), EffectKind::ReserveClaim(write));
        entry.write = Some(Write { effect, version, pods, allocates, releases: false, deallocates: None });
    }

    fn send_release(&mut self, key: &ObjectKey, claim: &Claim, version: u64) {
        let Some(entry) = invariant!(self.claim_writes.get_mut(key), "a claim that is written has an entry")
        else {
            return;
        };
        // Between the decision and this write another pod may have got the claim.
        let is_alone = |uid: &Uid| claim.claim.reserved_for.iter().all(|user| user.uid == *uid);
        let deallocates = entry.deallocate.take().filter(is_alone);
        let deallocates = deallocates.filter(|_| claim.claim.allocation.is_some());
        let deallocate = deallocates.is_some();
        let is_there = |uid: &&Uid| {
            // Writes of this scheduler may not be seen yet.
            entry.version > claim.version || claim.claim.reserved_for.iter().any(|c| c.uid == **uid)
        };
        let consumer = entry.unwanted.iter().find(is_there).cloned();
        match &consumer {
            Some(uid) => entry.unwanted.retain(|other| other != uid),
            None => entry.unwanted.clear(),
        }
        if consumer.is_none() && !deallocate {
            self.close_if_seen(key, claim);
            return self.wake_refused(key, false);
        }
        let write =
            ReleaseClaim { claim: key.clone(), uid: entry.uid.clone(), version, consumer, deallocate };
        let effect = self.outbox.launch(Purpose::Claim(key.clone()), EffectKind::ReleaseClaim(write));
        let pods = BTreeMap::new();
        entry.write = Some(Write { effect, version, pods, allocates: false, releases: true, deallocates });
    }

    /// Forgets the writes of a claim once the entry is idle and the last write is seen.
    pub(crate) fn close_if_seen(&mut self, key: &ObjectKey, claim: &Claim) {
        let Some(entry) = self.claim_writes.get_mut(key) else { return };
        if !entry.is_idle() {
            return;
        }
        if entry.is_uncertain(claim.version, self.now) {
            return;
        }
        entry.uncertain = None;
        let given_up = !entry.written && entry.allocation.take().is_some();
        let (uid, seen) = (entry.uid.clone(), entry.is_seen(claim.version) && entry.allocation.is_none());
        if seen {
            self.claim_writes.close(key);
        }
        if given_up {
            self.free(&uid);
            // Pods that were refused because the claim was as good as allocated elsewhere.
            self.wake_users(key, None);
        }
    }

    /// The outcome of a claim's write.
    pub(crate) fn claim_written(&mut self, key: &ObjectKey, reply: &Reply) {
        // The claim is gone.
        let Some(entry) = self.claim_writes.get_mut(key) else { return };
        let Some(write) = entry.write.take() else { return };
        self.settle_write(key, write, reply);
        self.wake_refused(key, true);
    }

    fn settle_write(&mut self, key: &ObjectKey, write: Write, reply: &Reply) {
        let Some(entry) = invariant!(self.claim_writes.get_mut(key), "a claim that is written has an entry")
        else {
            return;
        };
        match reply.outcome {
            Outcome::Done => {
                entry.tries = 0;
                entry.written |= write.allocates;
                if write.deallocates.is_some() {
                    entry.freed_after = Some(write.version);
                }
                match &reply.written {
                    // The result of a release is known when it is seen.
                    Some(written) if write.releases => {
                        entry.version = written.version;
                        let until = self.now.plus_millis(NEWS_MS_MAX);
                        entry.held_up = Some((write.version, until));
                        self.set_timer(until, TimerKey::Claim(key.clone()));
                    }
                    Some(written) => entry.version = written.version,
                    // Nothing is known of the version: wait for the watch before the next write.
                    None => {
                        let until = self.now.plus_millis(NEWS_MS_MAX);
                        entry.held_up = Some((write.version, until));
                        self.set_timer(until, TimerKey::Claim(key.clone()));
                    }
                }
                write.pods.into_keys().for_each(|pod| self.claim_ready(pod, key));
                self.settle_claim(key);
            }
            Outcome::Conflict | Outcome::Unknown => {
                entry.tries += 1;
                if reply.outcome == Outcome::Unknown && (write.allocates || write.releases) {
                    let until = self.now.plus_millis(CERTAIN_MS);
                    entry.uncertain = Some((write.version, until));
                    self.timers.insert((until, TimerKey::Claim(key.clone())));
                }
                entry.wanted.extend(write.pods);
                entry.deallocate = entry.deallocate.take().or(write.deallocates);
                if entry.tries > TRIES_MAX {
                    return self.drop_claim(key, "the claim could not be written: it kept changing");
                }
                let until = self.now.plus_millis(NEWS_MS_MAX);
                entry.held_up = Some((write.version, until));
                self.set_timer(until, TimerKey::Claim(key.clone()));
                self.claim_seen(key);
            }
            Outcome::Gone => {
                entry.wanted.extend(write.pods);
                self.drop_claim(key, "the claim is gone");
            }
            Outcome::Refused | Outcome::Held | Outcome::RetryLater => {
                entry.wanted.extend(write.pods);
                self.drop_claim(key, "the claim could not be written");
            }
        }
    }

    /// The watch may have been faster than the reply.
    fn settle_claim(&mut self, key: &ObjectKey) {
        let seen = self.claim_writes.get(key).zip(self.claim_cache.get(key));
        if seen.is_some_and(|(entry, claim)| claim.version >= entry.version) {
            self.claim_seen(key);
        } else {
            self.write_claim(key);
        }
    }

    /// The writes of a claim came to nothing: all pods that wait for it are decided on anew.
    fn drop_claim(&mut self, key: &ObjectKey, why: &str) {
        let Some(entry) = invariant!(self.claim_writes.get_mut(key), "a claim that is written has an entry")
        else {
            return;
        };
        let mut pods: Vec<u32> = core::mem::take(&mut entry.wanted).into_keys().collect();
        (entry.tries, entry.held_up, entry.deallocate) = (0, None, None);
        entry.unwanted.clear();
        let uid = entry.uid.clone();
        if self.claim_cache.get(key).is_none_or(|claim| claim.claim.uid != uid) {
            // The answer to a write in flight finds no entry.
            pods.extend(entry.write.take().into_iter().flat_map(|write| write.pods.into_keys()));
            self.free(&uid);
            self.claim_writes.close(key);
        } else if let Some(claim) = self.claim_cache.get(key).cloned() {
            self.close_if_seen(key, &claim);
        }
        let message: String = format!("resourceclaim {:?}: {why}", key.name.as_str());
        pods.into_iter().for_each(|pod| self.roll_back(pod, &message));
        // Pods that wait for the failed write must try again.
        for pod in self.claim_cache.users(key).to_vec() {
            self.queue.retry(self.now, pod);
        }
    }
}
