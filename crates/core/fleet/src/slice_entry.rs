//! A slice in the fleet, with who holds its devices and which patches hit them.

use alloc::sync::Arc;

use crate::{bits::DeviceBits, body::SliceBody, few::Few, slice::SliceState, sparse::Sparse};

/// A slice, or the stand-in for one held device that is not published.
#[derive(Clone, Debug)]
pub(crate) struct SliceEntry {
    pub(crate) pool: u32,
    pub(crate) state: Arc<SliceState>,
    /// The devices as the driver published them. The state's are the same unless patches override something.
    pub(crate) raw: Arc<SliceBody>,
    /// Devices that some claim holds, in whatever way, by place: each with its number among the held devices.
    pub(crate) held: Few<(u8, u32), 1>,
    /// Patches that hit one of its devices, or fail on one.
    pub(crate) patches: Sparse<u32>,
}

impl SliceEntry {
    pub(crate) fn new(pool: u32, state: SliceState) -> Self {
        let raw = state.body.clone();
        Self { pool, state: Arc::new(state), raw, held: Few::default(), patches: Sparse::default() }
    }

    /// The slice as the driver published it.
    pub(crate) fn as_published(&self) -> SliceState {
        let mut state = (*self.state).clone();
        state.body = self.raw.clone();
        state
    }

    /// Takes note of who holds the device at a place, if anybody does.
    pub(crate) fn set_held(&mut self, device: usize, holder: Option<u32>) {
        let found = self.held.binary_search_by_key(&device, |(at, _)| usize::from(*at));
        match (found, holder, u8::try_from(device)) {
            (Ok(at), Some(holder), Ok(device)) => self.held.set(at, (device, holder)),
            (Ok(at), None, _) => self.held.remove_at(at),
            (Err(at), Some(holder), Ok(device)) => self.held.insert_at(at, (device, holder)),
            (Err(_), None, _) | (_, _, Err(_)) => {}
        }
    }

    /// The claim that holds the device at a place.
    #[inline]
    pub(crate) fn holder(&self, device: usize) -> Option<u32> {
        let at = self.held.binary_search_by_key(&device, |(at, _)| usize::from(*at)).ok()?;
        Some(self.held[at].1)
    }

    /// The numbers of those of `devices` that some claim holds, each with its place.
    pub(crate) fn held_among(&self, devices: DeviceBits) -> impl Iterator<Item = (usize, u32)> {
        let held = self.held.iter().map(|(device, holder)| (usize::from(*device), *holder));
        held.filter(move |(device, _)| devices.has(*device))
    }
}
