//! The writes of one decision, in flight.

use lazaret_invariant::invariant;
use lazaret_machine::{EffectId, Outcome};

use crate::{controller::Planned, effect::Answer, meta, prelude::*, queue::backoff_ms};

/// Attempts of a write before the decision is made anew. Each has a precondition or a name, so that sending it
/// twice does it once.
const TRIES_MAX: u32 = 5;
/// An answer that has not come within this time never will.
const ANSWER_MS_MAX: i64 = 120_000;
/// An object that exists, though the cache does not have it yet, is awaited for this time.
const AWAIT_MS_MAX: i64 = 10_000;

/// The writes of one decision.
///
/// Creations start slowly, one, two, four at a time: when a quota forbids them all, few are tried.
#[derive(Debug)]
pub(crate) struct Flight {
    waiting: VecDeque<Planned>,
    /// Writes sent and not answered, with the time of sending.
    outstanding: BTreeMap<EffectId, (Timestamp, Planned)>,
    /// To be sent again, not before the time.
    again: VecDeque<(Timestamp, Planned)>,
    /// Objects that another client created under a name that we wanted: awaited from the watch until the time.
    awaited: Vec<(&'static Resource, Key, Timestamp)>,
    window: usize,
    /// Creations were left out until then, because the last ones were refused.
    waits_until: Option<Timestamp>,
    failed: bool,
    why: Option<String>,
}

impl Flight {
    /// Writes that create nothing go first: a status that reports a refusal must not wait for the refused creations. An object that is changed and
    /// deleted is changed first.
    pub(crate) fn new(mut writes: Vec<Planned>) -> Self {
        writes.sort_by_key(|planned| match planned.write {
            Write::Create { .. } => 2,
            Write::Delete { .. } => 1,
            Write::Patch { .. }
            | Write::Replace { .. }
            | Write::Finalize { .. }
            | Write::Evict { .. }
            | Write::Confirm { .. }
            | Write::ReadScale { .. }
            | Write::Event(_) => 0,
        });
        Self {
            waiting: writes.into(),
            outstanding: BTreeMap::new(),
            again: VecDeque::new(),
            awaited: Vec::new(),
            window: 1,
            waits_until: None,
            failed: false,
            why: None,
        }
    }

    /// The same without creations, which wait.
    pub(crate) fn without_creations(writes: Vec<Planned>, until: Timestamp) -> Self {
        Self { waits_until: Some(until), ..Self::new(writes) }
    }

    /// Until when creations wait that were left out.
    pub(crate) fn waits_until(&self) -> Option<Timestamp> {
        self.waits_until
    }

    /// The writes that may be sent now.
    pub(crate) fn release(&mut self, now: Timestamp, world: &World) -> Vec<Planned> {
        self.awaited.retain(|(resource, key, until)| *until > now && world.get(resource, key).is_none());
        let mut released = Vec::new();
        let again = core::mem::take(&mut self.again);
        for (at, planned) in again {
            if at <= now {
                released.push(planned);
            } else {
                self.again.push_back((at, planned));
            }
        }
        if self.failed {
            self.waiting.clear();
        }
        if self.outstanding.is_empty() && self.again.is_empty() && released.is_empty() {
            let mut creations = 0;
            while let Some(next) = self.waiting.front() {
                let creation = matches!(next.write, Write::Create { .. });
                if creation && creations >= self.window || is_changed_before(&next.write, &released) {
                    break;
                }
                creations += usize::from(creation);
                released.extend(self.waiting.pop_front());
            }
            if creations > 0 {
                self.window = self.window.saturating_mul(2);
            }
        }
        released
    }

    pub(crate) fn sent(&mut self, now: Timestamp, id: EffectId, planned: Planned) {
        self.outstanding.insert(id, (now, planned));
    }

    /// Gives up on answers that are overdue, and returns their effects: the task that owed them is gone.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<EffectId> {
        let overdue = |sent: &Timestamp| sent.plus_millis(ANSWER_MS_MAX) <= now;
        let ids: Vec<EffectId> =
            self.outstanding.iter().filter(|(_, (sent, _))| overdue(sent)).map(|(id, _)| *id).collect();
        for id in &ids {
            if let Some((_, planned)) = self.outstanding.remove(id) {
                self.send_again(now, planned, None);
            }
        }
        ids
    }

    /// Whether nothing is left to send, to hear or to wait for.
    pub(crate) fn is_over(&self, now: Timestamp, world: &World) -> bool {
        let awaiting = self
            .awaited
            .iter()
            .any(|(resource, key, until)| *until > now && world.get(resource, key).is_none());
        self.outstanding.is_empty() && self.again.is_empty() && self.waiting.is_empty() && !awaiting
    }

    /// When there is something to do that no answer brings about.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let again = self.again.iter().map(|(at, _)| *at).min();
        let awaited = self.awaited.iter().map(|(.., until)| *until).min();
        let overdue = self.outstanding.values().map(|(sent, _)| sent.plus_millis(ANSWER_MS_MAX)).min();
        again.into_iter().chain(awaited).chain(overdue).min()
    }

    /// Whether it failed, and the server's words if it will fail again.
    pub(crate) fn into_failure(self) -> Option<Option<String>> {
        self.failed.then_some(self.why)
    }

    /// One write has come to an end: what the world learns, and what to tell people.
    pub(crate) fn land(
        &mut self,
        now: Timestamp,
        world: &mut World,
        id: EffectId,
        answer: Answer,
    ) -> (Vec<Change>, Option<Note>) {
        let Some((_, planned)) =
            invariant!(self.outstanding.remove(&id), "a write that is in flight belongs to its decision")
        else {
            return (Vec::new(), None);
        };
        let Answer { reply, object } = answer;
        let why = reply.why.map(|why| why.as_str().to_owned());
        match reply.outcome {
            Outcome::Done => return (learn(now, world, &planned.write, object), planned.note),
            Outcome::Gone => return (self.gone(world, &planned.write), None),
            Outcome::Conflict => self.conflict(now, &planned),
            Outcome::Refused => self.fail(why.or_else(|| Some(String::new()))),
            // A creation that was refused with a reason is refused for the next object, too: none is tried before the decision is made anew.
            Outcome::Held | Outcome::RetryLater
                if why.is_some() && matches!(planned.write, Write::Create { .. }) =>
            {
                self.fail(why);
            }
            Outcome::Held | Outcome::RetryLater => self.send_again(now, planned, why),
            Outcome::Unknown => self.send_again(now, planned, None),
        }
        (Vec::new(), None)
    }

    /// Sends a write again after a while, unless that was done often enough.
    fn send_again(&mut self, now: Timestamp, mut planned: Planned, why: Option<String>) {
        planned.tries += 1;
        if planned.tries < TRIES_MAX && !matches!(planned.write, Write::Evict { .. }) {
            self.again.push_back((now.plus_millis(backoff_ms(planned.tries)), planned));
        } else {
            self.fail(why);
        }
    }

    fn fail(&mut self, why: Option<String>) {
        self.failed = true;
        self.why = why;
    }

    fn gone(&mut self, world: &mut World, write: &Write) -> Vec<Change> {
        match write {
            Write::Delete { resource, key, uid, .. } => {
                world.remove(resource, key, uid).into_iter().collect()
            }
            Write::Evict { key, uid } => world.remove(&resource::PODS, key, uid).into_iter().collect(),
            Write::Confirm { resource, key, uid } => {
                world.mark_absent(resource, key, uid);
                Vec::new()
            }
            Write::ReadScale { uid, .. } => {
                world.put_scale(uid, None);
                Vec::new()
            }
            // Its namespace has gone, or it went while we looked: news of that is on its way.
            Write::Create { .. } | Write::Patch { .. } | Write::Replace { .. } | Write::Finalize { .. } => {
                self.failed = true;
                Vec::new()
            }
            Write::Event(_) => Vec::new(),
        }
    }

    /// Something else is true than we thought: look again when the news has come.
    fn conflict(&mut self, now: Timestamp, planned: &Planned) {
        match &planned.write {
            Write::Create { resource, namespace, body } => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                self.awaited.push((
                    resource,
                    Key::new(namespace.as_str(), name),
                    now.plus_millis(AWAIT_MS_MAX),
                ));
            }
            Write::Patch { .. }
            | Write::Replace { .. }
            | Write::Finalize { .. }
            | Write::Delete { .. }
            | Write::Evict { .. }
            | Write::Confirm { .. }
            | Write::ReadScale { .. }
            | Write::Event(_) => self.failed = true,
        }
    }
}

/// Whether a deletion is of an object that is being changed.
fn is_changed_before(write: &Write, released: &[Planned]) -> bool {
    let Write::Delete { resource, key, .. } = write else { return false };
    let changes = |planned: &Planned| match &planned.write {
        Write::Patch { resource: other, key: changed, .. } => (other, changed) == (resource, key),
        Write::Create { .. }
        | Write::Replace { .. }
        | Write::Finalize { .. }
        | Write::Delete { .. }
        | Write::Evict { .. }
        | Write::Confirm { .. }
        | Write::ReadScale { .. }
        | Write::Event(_) => false,
    };
    released.iter().any(changes)
}

/// The result of a write is known at once, before the watch delivers it.
fn learn(now: Timestamp, world: &mut World, write: &Write, object: Option<Vec<u8>>) -> Vec<Change> {
    let parsed = |resource| object.as_deref().and_then(|text| Object::read(resource, text).ok());
    let change = match write {
        Write::Create { resource, .. } | Write::Patch { resource, .. } | Write::Replace { resource, .. } => {
            parsed(resource).and_then(|object| world.put_answer(object))
        }
        Write::Finalize { .. } => parsed(&resource::NAMESPACES).and_then(|object| world.put_answer(object)),
        Write::Delete { resource, key, uid, .. } => world.mark_leaving(now, resource, key, uid),
        Write::Evict { key, uid } => world.mark_leaving(now, &resource::PODS, key, uid),
        Write::Confirm { resource, key, uid } => {
            let found = parsed(resource);
            match found.filter(|found| uid.is_empty() || found.uid() == uid) {
                Some(found) if !meta::name(found.metadata()).is_empty() => world.put(found),
                Some(_) | None => {
                    world.mark_absent(resource, key, uid);
                    None
                }
            }
        }
        Write::ReadScale { uid, .. } => {
            world.put_scale(uid, object.as_deref());
            None
        }
        Write::Event(_) => None,
    };
    change.into_iter().collect()
}
