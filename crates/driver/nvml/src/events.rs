//! Events of GPUs.

use std::{fmt, time::Duration};

use nvml_wrapper_sys::bindings::{self as sys, nvmlEventData_t, nvmlEventSet_t};

use crate::{
    Card, Error, Nvml,
    card::Handle,
    library::{call, text},
};

/// Of no partition.
const NO_INSTANCE: u32 = u32::MAX;
/// The events to subscribe to, where a card supports them.
const WANTED: u64 = (sys::nvmlEventTypeXidCriticalError
    | sys::nvmlEventTypeDoubleBitEccError
    | sys::nvmlEventTypeSingleBitEccErrorStorm
    | sys::nvmlEventTypeDramRetirementEvent
    | sys::nvmlEventTypeDramRetirementFailure
    | sys::nvmlEventTypeNonFatalPoisonError
    | sys::nvmlEventTypeFatalPoisonError
    | sys::nvmlEventTypeGpuUnavailableError
    | sys::nvmlEventTypeGpuRecoveryAction) as u64;

/// Events of several cards.
pub struct Events {
    nvml: Nvml,
    set: nvmlEventSet_t,
}

// SAFETY: NVML is thread-safe by its documentation, and a set is an opaque value that it interprets.
unsafe impl Send for Events {}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = call!(self.nvml.shared, nvmlEventSetFree, self.set);
    }
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// To which GPU; absent if it cannot say any more.
    pub uuid: Option<String>,
    /// In which GPU instance, if it is partitioned and NVML knows it.
    pub gpu_instance: Option<u32>,
    /// In which compute instance of it.
    pub compute_instance: Option<u32>,
    /// Its kind.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The driver reported an XID.
    Xid(u64),
    /// Memory had an error that could not be corrected.
    DoubleBitEcc,
    /// Many errors were corrected in a short time.
    SingleBitEccStorm,
    /// Rows or pages are taken out of use.
    MemoryRetirement,
    /// Rows or pages could not be taken out of use.
    MemoryRetirementFailure,
    /// Poisoned data was used; the program that used it was ended.
    NonFatalPoison,
    /// Poisoned data was used; the GPU must be reset.
    FatalPoison,
    /// The GPU cannot be used.
    Unavailable,
    /// The recommended recovery action has changed.
    RecoveryAction,
    /// Something that this version does not know.
    Other(u64),
}

impl Events {
    pub(crate) fn new(nvml: &Nvml) -> Result<Self, Error> {
        let mut set = std::ptr::null_mut();
        call!(nvml.shared, nvmlEventSetCreate, &raw mut set)?;
        Ok(Self { nvml: nvml.clone(), set })
    }

    /// Adds what this card can report.
    ///
    /// # Errors
    /// When it can report no XIDs, or NVML refuses.
    pub fn add(&self, card: &Card) -> Result<(), Error> {
        let mut supported = 0;
        call!(self.nvml.shared, nvmlDeviceGetSupportedEventTypes, card.handle.0, &raw mut supported)?;
        call!(self.nvml.shared, nvmlDeviceRegisterEvents, card.handle.0, supported & WANTED, self.set)
    }

    /// Waits for the next event. Blocks: for a thread of its own.
    ///
    /// # Errors
    /// When NVML refuses: a card is lost, or the library must be loaded anew.
    pub fn wait(&self, at_most: Duration) -> Result<Option<Event>, Error> {
        let timeout_ms = u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX);
        let mut data = nvmlEventData_t {
            device: Handle::null().0,
            eventType: 0,
            eventData: 0,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        };
        match call!(self.nvml.shared, nvmlEventSetWait_v2, self.set, &raw mut data, timeout_ms) {
            Err(error) if error.is_timeout() => return Ok(None),
            waited => waited?,
        }
        let uuid =
            text(|at, length| call!(self.nvml.shared, nvmlDeviceGetUUID, data.device, at, length)).ok();
        let known = |id: u32| Some(id).filter(|id| *id != NO_INSTANCE);
        let (gpu_instance, compute_instance) = (known(data.gpuInstanceId), known(data.computeInstanceId));
        let kind = kind(data.eventType, data.eventData);
        Ok(Some(Event { uuid, gpu_instance, compute_instance, kind }))
    }
}

fn kind(number: u64, data: u64) -> EventKind {
    let Ok(small) = u32::try_from(number) else { return EventKind::Other(number) };
    match small {
        sys::nvmlEventTypeXidCriticalError => EventKind::Xid(data),
        sys::nvmlEventTypeDoubleBitEccError => EventKind::DoubleBitEcc,
        sys::nvmlEventTypeSingleBitEccErrorStorm => EventKind::SingleBitEccStorm,
        sys::nvmlEventTypeDramRetirementEvent => EventKind::MemoryRetirement,
        sys::nvmlEventTypeDramRetirementFailure => EventKind::MemoryRetirementFailure,
        sys::nvmlEventTypeNonFatalPoisonError => EventKind::NonFatalPoison,
        sys::nvmlEventTypeFatalPoisonError => EventKind::FatalPoison,
        sys::nvmlEventTypeGpuUnavailableError => EventKind::Unavailable,
        sys::nvmlEventTypeGpuRecoveryAction => EventKind::RecoveryAction,
        _ => EventKind::Other(number),
    }
}
