//! The events that an agent gets from the watches of its process: each in its order; of events that a broken watch missed, the last one of each
//! object.

use std::collections::BTreeMap;

use lazaret_model::{Text, Uid};

use crate::{
    actors::known_nodes::KnownNodes,
    api::{Kind, Live, Resource, Table},
};

/// How far an agent has processed the watches of its process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// By kind: events of the log.
    pub(crate) heard: [usize; Kind::ALL.len()],
    /// By number of a pod's key: one more than the place in the log of what it heard last; 0: there is none.
    pub(crate) pods: Live,
    /// Reports of nodes.
    pub(crate) reports: usize,
    /// Events of objects that are kept as JSON.
    pub(crate) objects: usize,
    /// Of the scheduler: the nodes as it has heard of them.
    pub(crate) nodes: KnownNodes,
    /// Of the workload controllers: the UIDs of the nodes that they have heard of.
    pub(crate) node_uids: BTreeMap<Text, Uid>,
}

/// The first lists of a process's watches, and the events that they missed since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// By kind: how far the first list was.
    pub(crate) began: [usize; Kind::ALL.len()],
    /// A watch that broke off here was opened anew there.
    pub(crate) missed: Vec<(Kind, usize, usize)>,
}

/// An event: its place in the log, and whether others before it were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) place: usize,
    pub(crate) is_after_gap: bool,
}

impl Gaps {
    /// Events from here to there, as the watch of this kind told of them.
    pub(crate) fn events<T: Resource>(&self, table: &Table<T>, from: usize, to: usize) -> Vec<Event> {
        if from == to {
            return Vec::new();
        }
        let log = table.log();
        let missed: Vec<&(Kind, usize, usize)> =
            self.missed.iter().filter(|(kind, _, end)| *kind == T::KIND && *end > from).collect();
        let mut events = Vec::with_capacity(to - from);
        for place in from..to {
            match missed.iter().find(|(_, begin, end)| (*begin..*end).contains(&place)) {
                None => events.push(Event { place, is_after_gap: false }),
                Some((_, _, end)) => {
                    let number = log[place].number;
                    if log[place + 1..*end].iter().all(|later| later.number != number) {
                        events.push(Event { place, is_after_gap: true });
                    }
                }
            }
        }
        events
    }
}

/// The objects that there were when the log was as long as this, by number of key: one more than their places; 0: there was none.
pub(crate) fn listed<T: Resource>(table: &Table<T>, length: usize) -> Live {
    let mut live = Live::new();
    for (place, logged) in (1..).zip(&table.log()[..length]) {
        let number = logged.number as usize;
        live.resize(live.len().max(number + 1), 0);
        live[number] = if logged.object.is_some() { place } else { 0 };
    }
    live
}

#[cfg(test)]
mod tests {
    use lazaret_model::{ObjectKey, Pod};

    use super::*;
    use crate::api::Versions;

    #[test]
    fn of_a_gap_only_the_last_events_are_heard() {
        let (mut table, mut versions) = (Table::<Pod>::default(), Versions::default());
        let mut put = |name: &str| {
            table.put(&mut versions, Pod { key: ObjectKey::new("a", name), ..Pod::default() });
        };
        ["p", "q", "p", "p", "q"].into_iter().for_each(&mut put);
        let gaps = Gaps { missed: vec![(Kind::Pod, 1, 4), (Kind::Claim, 0, 5)], ..Gaps::default() };
        let events = gaps.events(&table, 0, 5);
        let places: Vec<(usize, bool)> =
            events.iter().map(|event| (event.place, event.is_after_gap)).collect();
        assert_eq!(places, [(0, false), (1, true), (3, true), (4, false)]);
        assert_eq!(listed(&table, 3), [3, 2]);
    }
}
