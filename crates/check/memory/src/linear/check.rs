//! The check of a history.

use std::collections::BTreeMap;

use super::history::{Change, History, Operation, Seen, What, Written};

/// The state of the store after each revision, as the acknowledged writes and the watches tell it.
struct Order {
    first: u64,
    changes: BTreeMap<u64, Change>,
    /// The instant before which a revision cannot have existed.
    began: BTreeMap<u64, u64>,
    /// Revisions of each key, ascending, with the value from then on.
    by_key: BTreeMap<String, Vec<(u64, Option<String>)>>,
}

/// Whether there is an order of all operations that agrees with every answer and with time.
///
/// # Errors
/// The first operation that has no place, and why.
pub fn check(history: &History) -> Result<(), String> {
    let order = Order::of(history)?;
    for operation in &history.operations {
        if let What::Watched { prefix, from, delivered, progress } = &operation.what {
            order.check_watch(prefix, *from, delivered, *progress)?;
        }
    }
    place_all(history, &order)
}

impl Order {
    fn of(history: &History) -> Result<Order, String> {
        let mut order = Order {
            first: history.first,
            changes: BTreeMap::new(),
            began: BTreeMap::new(),
            by_key: BTreeMap::new(),
        };
        for operation in &history.operations {
            if let What::Wrote { changes, .. } = &operation.what {
                if !changes.windows(2).all(|pair| pair[1].revision == pair[0].revision + 1) {
                    return Err(format!("a write is not whole: {changes:?}"));
                }
                for change in changes {
                    order.began.insert(change.revision, operation.start);
                    if let Some(other) = order.changes.insert(change.revision, change.clone()) {
                        return Err(format!(
                            "revision {} was given twice: {other:?}, {change:?}",
                            change.revision
                        ));
                    }
                }
            }
        }
        order.take_unanswered(history)?;
        order.raise_beginnings();
        for (revision, change) in &order.changes {
            order.by_key.entry(change.key.clone()).or_default().push((*revision, change.value.clone()));
        }
        Ok(order)
    }

    /// Changes that only watches tell of: each must be one that a client tried and got no answer for.
    fn take_unanswered(&mut self, history: &History) -> Result<(), String> {
        for operation in &history.operations {
            let What::Watched { delivered, .. } = &operation.what else { continue };
            for (_, change) in delivered {
                match self.changes.get(&change.revision) {
                    Some(known) if known == change => continue,
                    Some(known) => return Err(format!("a watch delivered {change:?}, and it was {known:?}")),
                    None => {}
                }
                let began = history
                    .operations
                    .iter()
                    .filter(|tried| tried_it(tried, change))
                    .map(|tried| tried.start)
                    .min();
                let began =
                    began.ok_or_else(|| format!("a watch delivered {change:?}, which no client wrote"))?;
                self.began.insert(change.revision, began);
                self.changes.insert(change.revision, change.clone());
            }
        }
        Ok(())
    }

    /// The last change of a key up to a revision.
    fn at(&self, key: &str, revision: u64) -> Option<Seen> {
        let versions = self.by_key.get(key)?;
        let (revision, value) =
            &versions[versions.partition_point(|(made, _)| *made <= revision).checked_sub(1)?];
        value.clone().map(|value| Seen { revision: *revision, value })
    }

    fn contents(&self, prefix: &str, revision: u64) -> BTreeMap<String, Seen> {
        let keys = self.by_key.keys().filter(|key| key.starts_with(prefix));
        keys.filter_map(|key| Some((key.clone(), self.at(key, revision)?))).collect()
    }

    /// Revisions not below `floor` at which the store changed, with `floor` itself.
    fn places(&self, floor: u64) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(floor).chain(self.changes.range(floor + 1..).map(|(revision, _)| *revision))
    }

    /// The instant from which the store may have been at a revision.
    fn began(&self, revision: u64) -> u64 {
        self.began.range(..=revision).next_back().map_or(0, |(_, began)| *began)
    }

    /// A revision cannot be there before those below it.
    fn raise_beginnings(&mut self) {
        let mut latest = 0;
        for began in self.began.values_mut() {
            latest = latest.max(*began);
            *began = latest;
        }
    }

    fn holds(&self, key: &str, expected: Written, revision: u64) -> bool {
        let found = self.at(key, revision);
        match expected {
            Written::Absent => found.is_none(),
            Written::Present => found.is_some(),
            Written::At(at) => found.is_some_and(|found| found.revision == at),
        }
    }

    fn check_watch(
        &self,
        prefix: &str,
        from: u64,
        delivered: &[(u64, Change)],
        progress: u64,
    ) -> Result<(), String> {
        let until = delivered.last().map_or(from, |(_, change)| change.revision).max(progress);
        let due = self.changes.range(from + 1..=until.max(from + 1)).map(|(_, change)| change);
        let mut due = due.filter(|change| change.revision <= until && change.key.starts_with(prefix));
        for (_, change) in delivered {
            let expected = due.next();
            if expected != Some(change) {
                return Err(format!(
                    "watch of {prefix:?} from {from}: delivered {change:?}, due was {expected:?}"
                ));
            }
        }
        match due.next() {
            Some(lost) => {
                Err(format!("watch of {prefix:?} from {from} at progress {progress}: {lost:?} was left out"))
            }
            None => Ok(()),
        }
    }

    /// The earliest place of an answer that is not below `floor`.
    fn place(&self, what: &What, floor: u64) -> Result<u64, String> {
        let place = match what {
            What::Wrote { changes, expected } => match (changes.first(), changes.last()) {
                (Some(first), Some(last)) => {
                    let before = first.revision - 1;
                    let held = expected.iter().all(|(key, expected)| self.holds(key, *expected, before));
                    (held && first.revision > floor).then_some(last.revision)
                }
                _ => self
                    .find(floor, |at| expected.iter().all(|(key, expected)| self.holds(key, *expected, at))),
            },
            What::Refused { key, expected, found } => self.find(floor, |at| {
                !self.holds(key, *expected, at) && found.is_none_or(|found| self.holds(key, found, at))
            }),
            What::Read { key, found } => self.find(floor, |at| self.at(key, at) == *found),
            What::Listed { prefix, revision, found } => {
                (*revision >= floor && self.contents(prefix, *revision) == *found).then_some(*revision)
            }
            What::ListedAt { prefix, revision, found } => {
                (self.contents(prefix, *revision) == *found).then_some(floor.max(*revision))
            }
            What::Watched { .. } | What::Unanswered { .. } => Some(floor),
        };
        place.ok_or_else(|| format!("nothing explains this answer at revision {floor} or later: {what:?}"))
    }

    fn find(&self, floor: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
        self.places(floor).find(|at| holds(*at))
    }
}

fn tried_it(operation: &Operation, change: &Change) -> bool {
    let What::Unanswered { changes } = &operation.what else { return false };
    changes.iter().any(|(key, value)| *key == change.key && *value == change.value)
}

/// An instant at which something is known of the store's revision.
enum Instant<'a> {
    Start(&'a Operation),
    Delivered(u64),
    End(usize),
}

/// Gives each operation its earliest place, in the order of their starts. An operation that ended before another began has the earlier place.
fn place_all(history: &History, order: &Order) -> Result<(), String> {
    let mut instants: Vec<(u64, Instant<'_>)> = Vec::new();
    for (nth, operation) in history.operations.iter().enumerate() {
        match &operation.what {
            What::Watched { delivered, .. } => {
                let delivered =
                    delivered.iter().map(|(at, change)| (*at, Instant::Delivered(change.revision)));
                instants.extend(delivered);
            }
            What::Unanswered { .. } => {}
            What::Wrote { .. }
            | What::Refused { .. }
            | What::Read { .. }
            | What::Listed { .. }
            | What::ListedAt { .. } => instants
                .extend([(operation.start, Instant::Start(operation)), (operation.end, Instant::End(nth))]),
        }
    }
    instants.sort_by_key(|(at, _)| *at);
    let mut floor = order.first;
    let mut placed: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, instant) in instants {
        match instant {
            Instant::Start(operation) => {
                let place = order.place(&operation.what, floor)?;
                if order.began(place) > operation.end {
                    return Err(format!("answered from the future, revision {place}: {operation:?}"));
                }
                placed.insert(operation.start, place);
            }
            Instant::Delivered(revision) => {
                if order.began(revision) > at {
                    return Err(format!("revision {revision} was delivered before anybody wrote it"));
                }
                floor = floor.max(revision);
            }
            Instant::End(nth) => {
                let place = placed.get(&history.operations[nth].start).copied();
                floor = floor.max(place.unwrap_or(floor));
            }
        }
    }
    Ok(())
}
