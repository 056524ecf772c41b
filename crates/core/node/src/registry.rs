//! Which registration sockets there are, and how far each is with its registration.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use lazaret_machine::Backoff;

use crate::{ClaimKind, Millis};

/// Sockets in the registration directory. More are not looked at.
pub const SOCKETS_MAX: usize = 256;
/// After a failed registration: the first pause and the longest, as kubelet has them.
const RETRY: Backoff = Backoff::new(500, 122_000);

/// The identity of a socket, which differs from that of an earlier one at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId {
    /// The file system.
    pub device: u64,
    /// The file.
    pub inode: u64,
    /// When the file was made: inodes are used again.
    pub changed_ns: i64,
}

/// A plugin that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) kind: ClaimKind,
    pub(crate) driver: String,
    pub(crate) endpoint: String,
}

/// How far a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting {
        at: Millis,
    },
    Asking,
    /// The plugin is being notified of the refusal.
    Refusing,
    /// The plugin is registered; it may not know yet.
    Registered {
        plugin: Registered,
        is_notified: bool,
    },
}

#[derive(Clone, Debug)]
struct Slot {
    socket: SocketId,
    state: State,
    failures: u32,
}

/// The sockets of a registration directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registrations {
    slots: BTreeMap<String, Slot>,
}

impl Registrations {
    /// Takes over what is in the directory now. Gives plugins that are gone: their socket is, or another is in its place.
    pub(crate) fn scan(&mut self, now: Millis, found: &BTreeMap<String, SocketId>) -> Vec<Registered> {
        let mut gone = Vec::new();
        self.slots.retain(|path, slot| {
            let stays = found.get(path) == Some(&slot.socket);
            if !stays && let State::Registered { plugin, .. } = &slot.state {
                gone.push(plugin.clone());
            }
            stays
        });
        for (path, socket) in found {
            if self.slots.len() >= SOCKETS_MAX {
                break;
            }
            let waiting = Slot { socket: *socket, state: State::Waiting { at: now }, failures: 0 };
            self.slots.entry(path.clone()).or_insert(waiting);
        }
        gone
    }

    /// Sockets to ask now.
    pub(crate) fn due(&mut self, now: Millis) -> Vec<(String, SocketId)> {
        let mut due = Vec::new();
        for (path, slot) in &mut self.slots {
            if matches!(slot.state, State::Waiting { at } if at <= now) {
                slot.state = State::Asking;
                due.push((path.clone(), slot.socket));
            }
        }
        due
    }

    /// Whether an answer is about the current socket.
    pub(crate) fn is_current(&self, path: &str, socket: SocketId) -> bool {
        self.slots.get(path).is_some_and(|slot| slot.socket == socket)
    }

    /// The plugin is registered and is to be told.
    pub(crate) fn registered(&mut self, path: &str, plugin: Registered) {
        if let Some(slot) = self.slots.get_mut(path) {
            slot.state = State::Registered { plugin, is_notified: false };
        }
    }

    /// The plugin is refused and is to be told.
    pub(crate) fn refused(&mut self, path: &str) {
        if let Some(slot) = self.slots.get_mut(path) {
            slot.state = State::Refusing;
        }
    }

    /// The plugin was told, or not. Gives the plugin that is no more registered: one that was not told starts over.
    pub(crate) fn notified(&mut self, now: Millis, path: &str, is_notified: bool) -> Option<Registered> {
        let slot = self.slots.get_mut(path)?;
        match &mut slot.state {
            State::Registered { is_notified: notified, .. } if is_notified => {
                *notified = true;
                slot.failures = 0;
                None
            }
            State::Registered { plugin, .. } => {
                let gone = plugin.clone();
                self.failed(now, path);
                Some(gone)
            }
            State::Waiting { .. } | State::Asking | State::Refusing => {
                self.failed(now, path);
                None
            }
        }
    }

    /// It did not work; it is tried again later.
    pub(crate) fn failed(&mut self, now: Millis, path: &str) {
        if let Some(slot) = self.slots.get_mut(path) {
            slot.failures += 1;
            slot.state = State::Waiting { at: now + RETRY.millis_after(slot.failures) };
        }
    }

    pub(crate) fn wake(&self) -> Option<Millis> {
        let at = |slot: &Slot| match slot.state {
            State::Waiting { at } => Some(at),
            State::Asking | State::Refusing | State::Registered { .. } => None,
        };
        self.slots.values().filter_map(at).min()
    }
}
