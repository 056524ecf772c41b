//! How many connections there are, whose they are, and which one is closed when there are too many.
//!
//! A connection is unidentified until a certificate or a request has shown credentials. Unidentified ones have a quarter of the table at
//! most, so that a flood of them closes its own: the newest always gets in, the oldest goes.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::Level;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Limits of a table of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All connections.
    pub total: usize,
    /// Connections that have shown no credentials.
    pub unidentified: usize,
    /// The same, from one address.
    pub unidentified_per_address: usize,
    /// Connections of users of [`Level::Workload`].
    pub workload: usize,
    /// Connections of one such user.
    pub workload_per_user: usize,
}

impl ConnectionLimits {
    /// Shares of a table of this size: a quarter is for the unidentified, a half for workloads, so that a quarter is left for nodes,
    /// controllers and administrators.
    #[must_use]
    pub fn of_total(total: usize) -> Self {
        Self {
            total,
            unidentified: (total / 4).max(1),
            unidentified_per_address: (total / 8).max(1),
            workload: (total / 2).max(1),
            workload_per_user: (total / 8).max(1),
        }
    }
}

/// A new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It stays, and another one is closed for it if one is named.
    Kept(ConnectionId, Option<ConnectionId>),
    /// It is closed: all others have authenticated users.
    Refused,
}

/// A connection whose user is known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified {
    /// It stays, and another one of the same user is closed for it if one is named.
    Kept(Option<ConnectionId>),
    /// It is closed: the user has too many that are all in use.
    Refused,
}

#[derive(Clone, Debug)]
struct Entry<K> {
    address: u128,
    user: Option<(Level, K)>,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Connections<K> {
    limits: ConnectionLimits,
    entries: BTreeMap<ConnectionId, Entry<K>>,
    /// The oldest first: numbers ascend.
    unidentified: BTreeSet<ConnectionId>,
    addresses: BTreeMap<u128, usize>,
    workload: BTreeMap<K, BTreeSet<ConnectionId>>,
    workload_total: usize,
    last_id: u64,
}

impl<K: Ord + Clone> Connections<K> {
    /// A table without connections.
    #[must_use]
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            unidentified: BTreeSet::new(),
            addresses: BTreeMap::new(),
            workload: BTreeMap::new(),
            workload_total: 0,
            last_id: 0,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A connection from an address. `idle` says whether nothing is asked over one: those are closed first.
    pub fn open(&mut self, address: u128, idle: impl Fn(ConnectionId) -> bool) -> Opened {
        let from_address = self.addresses.get(&address).copied().unwrap_or(0);
        let evicted = if from_address >= self.limits.unidentified_per_address {
            self.oldest_unidentified(&idle, |entry| entry.address == address)
        } else if self.unidentified.len() >= self.limits.unidentified
            || self.entries.len() >= self.limits.total
        {
            let oldest = self.oldest_unidentified(&idle, |_| true);
            if oldest.is_none() {
                return Opened::Refused;
            }
            oldest
        } else {
            None
        };
        if let Some(id) = evicted {
            self.close(id);
        }
        self.last_id += 1;
        let id = ConnectionId(self.last_id);
        self.entries.insert(id, Entry { address, user: None });
        self.unidentified.insert(id);
        *self.addresses.entry(address).or_insert(0) += 1;
        Opened::Kept(id, evicted)
    }

    /// A connection has shown credentials. The first ones count.
    pub fn identify(
        &mut self,
        id: ConnectionId,
        level: Level,
        user: &K,
        idle: impl Fn(ConnectionId) -> bool,
    ) -> Identified {
        match level {
            Level::Anonymous | Level::Health => return Identified::Kept(None),
            Level::Exempt | Level::LeaderElection | Level::System | Level::Workload => {}
        }
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.user.is_none()) else {
            return Identified::Kept(None);
        };
        entry.user = Some((level, user.clone()));
        let address = entry.address;
        self.unidentified.remove(&id);
        self.forget_address(address);
        if level != Level::Workload {
            return Identified::Kept(None);
        }
        let mine = self.workload.get(user).map_or(0, BTreeSet::len);
        let evicted = if mine >= self.limits.workload_per_user || self.workload_total >= self.limits.workload
        {
            let oldest = self.workload.get(user).and_then(|mine| mine.iter().copied().find(|id| idle(*id)));
            if oldest.is_none() {
                self.entries.remove(&id);
                return Identified::Refused;
            }
            oldest
        } else {
            None
        };
        if let Some(id) = evicted {
            self.close(id);
        }
        self.workload.entry(user.clone()).or_default().insert(id);
        self.workload_total += 1;
        Identified::Kept(evicted)
    }

    /// A connection is closed, or about to close.
    pub fn close(&mut self, id: ConnectionId) {
        let Some(entry) = self.entries.remove(&id) else { return };
        match entry.user {
            None => {
                self.unidentified.remove(&id);
                self.forget_address(entry.address);
            }
            Some((Level::Workload, user)) => {
                if let Some(mine) = self.workload.get_mut(&user)
                    && mine.remove(&id)
                {
                    self.workload_total -= 1;
                    if mine.is_empty() {
                        self.workload.remove(&user);
                    }
                }
            }
            Some((
                Level::Exempt | Level::Health | Level::LeaderElection | Level::System | Level::Anonymous,
                _,
            )) => {}
        }
    }

    fn oldest_unidentified(
        &self,
        idle: impl Fn(ConnectionId) -> bool,
        keep: impl Fn(&Entry<K>) -> bool,
    ) -> Option<ConnectionId> {
        let mut all =
            self.unidentified.iter().copied().filter(|id| self.entries.get(id).is_some_and(&keep)).peekable();
        let oldest = all.peek().copied();
        all.find(|id| idle(*id)).or(oldest)
    }

    fn forget_address(&mut self, address: u128) {
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
