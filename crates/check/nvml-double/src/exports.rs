//! The functions, as NVML's header declares them.
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "NVML's names; its header says what each wants"
)]
#![allow(missing_docs, reason = "NVML's documentation holds")]

use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void},
    time::Duration,
};

use nvml_wrapper_sys::bindings as sys;
use sys::{nvmlDevice_t, nvmlReturn_t};

use crate::state::{Card, Part, Profile, Script, State, state};

const OK: nvmlReturn_t = sys::nvmlReturn_enum_NVML_SUCCESS;
const INVALID: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
const UNSUPPORTED: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
const NOT_FOUND: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_NOT_FOUND;
const LOST: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST;
const FULL: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES;
const IN_USE: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_IN_USE;
const NO_MODULE: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED;
const UNINITIALIZED: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED;
const TIMEOUT: nvmlReturn_t = sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT;

/// A handle is a number: the load of the kernel module in millions, the card from 1 on in thousands, the GPU instance from 1 on
/// below, what it is in hundreds.
const MODULE: usize = 1_000_000;
const CARD: usize = 1000;
const INSTANCE: usize = 100;
const COMPUTE: usize = 200;
const PART: usize = 300;
/// Between two looks for events.
const LOOK_EVERY: Duration = Duration::from_millis(2);

fn with(act: impl FnOnce(&mut State) -> Result<(), nvmlReturn_t>) -> nvmlReturn_t {
    match state().as_mut() {
        Some(state) => act(state).err().unwrap_or(OK),
        None => NO_MODULE,
    }
}

/// The script, for a library that was initialized since the kernel module was loaded; and which load that is.
fn present(state: &State) -> Result<(Script, usize), nvmlReturn_t> {
    let script = state.script();
    if script.driver.is_empty() {
        return Err(NO_MODULE);
    }
    let module = state.module(&script).ok_or(UNINITIALIZED)?;
    Ok((script, module))
}

fn card(state: &State, handle: *mut c_void) -> Result<Card, nvmlReturn_t> {
    let (script, module) = present(state)?;
    if handle as usize / MODULE != module {
        return Err(INVALID);
    }
    let number = (handle as usize % MODULE / CARD).checked_sub(1).ok_or(INVALID)?;
    let card = script.cards.get(number).cloned().ok_or(INVALID)?;
    if card.lost { Err(LOST) } else { Ok(card) }
}

/// A card of which figures are read.
fn readable(state: &State, handle: *mut c_void) -> Result<Card, nvmlReturn_t> {
    let card = card(state, handle)?;
    if card.failing == 0 { Ok(card) } else { Err(card.failing) }
}

fn instance_of(handle: *mut c_void) -> u32 {
    (handle as usize % 100) as u32 - 1
}

/// Writes through a pointer of the caller's.
fn put<T>(at: *mut T, value: T) -> Result<(), nvmlReturn_t> {
    if at.is_null() {
        return Err(INVALID);
    }
    // SAFETY: the caller gives a place for a `T`, as NVML's header asks.
    unsafe { at.write(value) };
    Ok(())
}

fn put_text(at: *mut c_char, length: c_uint, text: &str) -> Result<(), nvmlReturn_t> {
    if text.len() >= length as usize {
        return Err(sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller gives a place for `length` bytes, and the text with its end is not longer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), at, text.len());
        at.add(text.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    with(|state| {
        if state.script().driver.is_empty() {
            return Err(NO_MODULE);
        }
        state.begin();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    with(|state| if state.end() { Ok(()) } else { Err(UNINITIALIZED) })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(at: *mut c_char, length: c_uint) -> nvmlReturn_t {
    with(|state| put_text(at, length, &present(state)?.0.driver))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(at: *mut c_int) -> nvmlReturn_t {
    with(|_| put(at, 13_000))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(at: *mut c_uint) -> nvmlReturn_t {
    with(|state| put(at, present(state)?.0.cards.len() as c_uint))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, at: *mut nvmlDevice_t) -> nvmlReturn_t {
    with(|state| {
        let (_, module) = present(state)?;
        let handle = (module * MODULE + (index as usize + 1) * CARD) as *mut c_void;
        card(state, handle)?;
        put(at, handle.cast())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(handle: nvmlDevice_t, at: *mut c_char, length: c_uint) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        if handle as usize % CARD < PART {
            return put_text(at, length, &card.uuid);
        }
        let part = instance_of(handle.cast());
        put_text(at, length, &format!("{}-{part}", card.uuid.replacen("GPU-", "MIG-", 1)))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(handle: nvmlDevice_t, at: *mut c_char, length: c_uint) -> nvmlReturn_t {
    with(|state| put_text(at, length, &card(state, handle.cast())?.name))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetBrand(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|state| card(state, handle.cast()).and_then(|_| put(at, sys::nvmlBrandType_enum_NVML_BRAND_NVIDIA)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetArchitecture(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|state| card(state, handle.cast()).and_then(|_| put(at, 9)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCudaComputeCapability(
    handle: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    with(|state| {
        card(state, handle.cast())?;
        put(major, 9)?;
        put(minor, 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(handle: nvmlDevice_t, at: *mut sys::nvmlMemory_t) -> nvmlReturn_t {
    with(|state| {
        let total = card(state, handle.cast())?.memory;
        put(at, sys::nvmlMemory_t { total, free: total, used: 0 })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMinorNumber(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|state| put(at, card(state, handle.cast())?.minor))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v3(handle: nvmlDevice_t, at: *mut sys::nvmlPciInfo_t) -> nvmlReturn_t {
    with(|state| {
        let minor = card(state, handle.cast())?.minor;
        // SAFETY: a structure of numbers and bytes, for which zero is a value.
        let mut info: sys::nvmlPciInfo_t = unsafe { std::mem::zeroed() };
        let text = format!("00000000:{:02X}:06.0", 0xa0 + minor);
        for (place, byte) in info.busId.iter_mut().zip(text.bytes()) {
            *place = c_char::from_ne_bytes(byte.to_ne_bytes());
        }
        put(at, info)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeMode(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|state| {
        let uuid = card(state, handle.cast())?.uuid;
        put(at, state.hardware().modes.get(&uuid).copied().unwrap_or(0))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceSetComputeMode(handle: nvmlDevice_t, mode: c_uint) -> nvmlReturn_t {
    with(|state| {
        let uuid = card(state, handle.cast())?.uuid;
        let mut hardware = state.hardware();
        hardware.modes.insert(uuid, mode);
        if state.keep(&hardware) { Ok(()) } else { Err(INVALID) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEccErrors(
    handle: nvmlDevice_t,
    kind: c_uint,
    _counter: c_uint,
    at: *mut c_ulonglong,
) -> nvmlReturn_t {
    with(|state| {
        let card = readable(state, handle.cast())?;
        let uncorrected = kind == sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
        put(at, if uncorrected { card.ecc_uncorrected } else { 0 })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetRemappedRows(
    handle: nvmlDevice_t,
    correctable: *mut c_uint,
    uncorrectable: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> nvmlReturn_t {
    with(|state| {
        let card = readable(state, handle.cast())?;
        put(correctable, 0)?;
        put(uncorrectable, 0)?;
        put(pending, card.rows_pending.into())?;
        put(failed, card.rows_failed.into())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(
    handle: nvmlDevice_t,
    at: *mut c_ulonglong,
) -> nvmlReturn_t {
    with(|state| put(at, readable(state, handle.cast())?.slowdown))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(
    handle: nvmlDevice_t,
    _sensor: c_uint,
    at: *mut c_uint,
) -> nvmlReturn_t {
    with(|state| readable(state, handle.cast()).and_then(|_| put(at, 40)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFieldValues(
    handle: nvmlDevice_t,
    count: c_int,
    at: *mut sys::nvmlFieldValue_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = readable(state, handle.cast())?;
        if count != 1 || at.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller gives one structure, which it has filled.
        let value = unsafe { &mut *at };
        value.nvmlReturn = UNSUPPORTED;
        if value.fieldId == sys::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION {
            value.nvmlReturn = OK;
            value.valueType = sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
            value.value.uiVal = card.recovery;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(
    handle: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        if card.profiles.is_empty() {
            return Err(UNSUPPORTED);
        }
        let on = state.hardware().split.get(&card.uuid).copied().unwrap_or(false).into();
        put(current, on)?;
        put(pending, on)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceSetMigMode(
    handle: nvmlDevice_t,
    mode: c_uint,
    status: *mut nvmlReturn_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        if card.profiles.is_empty() {
            return Err(UNSUPPORTED);
        }
        let mut hardware = state.hardware();
        if hardware.parts.get(&card.uuid).is_some_and(|parts| !parts.is_empty()) {
            return Err(IN_USE);
        }
        hardware.split.insert(card.uuid, mode != 0);
        put(status, if state.keep(&hardware) { OK } else { INVALID })
    })
}

fn profile(card: &Card, id: u32) -> Result<&Profile, nvmlReturn_t> {
    card.profiles.iter().find(|profile| profile.id == id).ok_or(INVALID)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(
    handle: nvmlDevice_t,
    number: c_uint,
    at: *mut sys::nvmlGpuInstanceProfileInfo_v2_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let profile = card.profiles.get(number as usize).ok_or(UNSUPPORTED)?;
        // SAFETY: the caller gives one structure, with its version filled in.
        let info = unsafe { at.as_mut() }.ok_or(INVALID)?;
        info.id = profile.id;
        info.sliceCount = profile.slices;
        info.instanceCount = profile.starts.len() as c_uint;
        info.multiprocessorCount = profile.multiprocessors;
        info.memorySizeMB = profile.memory;
        for (place, byte) in info.name.iter_mut().zip(profile.name.bytes().chain([0])) {
            *place = c_char::from_ne_bytes(byte.to_ne_bytes());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    handle: nvmlDevice_t,
    id: c_uint,
    at: *mut sys::nvmlGpuInstancePlacement_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let profile = profile(&card, id)?;
        // SAFETY: the caller says in `count` for how many there is place.
        let room = unsafe { count.read() } as usize;
        for (number, start) in profile.starts.iter().enumerate().take(room) {
            // SAFETY: `number` is below `room`.
            let place = unsafe { at.add(number) };
            put(place, sys::nvmlGpuInstancePlacement_t { start: *start, size: profile.size })?;
        }
        put(count, profile.starts.len() as c_uint)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|state| card(state, handle.cast()).and_then(|_| put(at, 8)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: nvmlDevice_t,
    index: c_uint,
    at: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let hardware = state.hardware();
        let parts = hardware.parts.get(&card.uuid).ok_or(NOT_FOUND)?;
        let filled = parts.iter().filter(|(_, part)| part.filled).nth(index as usize);
        let (id, _) = filled.ok_or(NOT_FOUND)?;
        put(at, (handle as usize / CARD * CARD + PART + *id as usize + 1) as nvmlDevice_t)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceId(handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|_| put(at, instance_of(handle.cast())))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeInstanceId(_handle: nvmlDevice_t, at: *mut c_uint) -> nvmlReturn_t {
    with(|_| put(at, 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceById(
    handle: nvmlDevice_t,
    id: c_uint,
    at: *mut sys::nvmlGpuInstance_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let hardware = state.hardware();
        hardware.parts.get(&card.uuid).and_then(|parts| parts.get(&id)).ok_or(NOT_FOUND)?;
        put(at, (handle as usize / CARD * CARD + INSTANCE + id as usize + 1) as sys::nvmlGpuInstance_t)
    })
}

/// The part that a handle of a GPU instance or a compute instance means, changed.
fn change(
    state: &State,
    handle: *mut c_void,
    act: impl FnOnce(&mut std::collections::BTreeMap<u32, Part>, u32) -> Result<(), nvmlReturn_t>,
) -> Result<(), nvmlReturn_t> {
    let card = card(state, handle)?;
    let mut hardware = state.hardware();
    act(hardware.parts.entry(card.uuid).or_default(), instance_of(handle))?;
    if state.keep(&hardware) { Ok(()) } else { Err(INVALID) }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetInfo(
    handle: sys::nvmlGpuInstance_t,
    at: *mut sys::nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let hardware = state.hardware();
        let id = instance_of(handle.cast());
        let part = hardware.parts.get(&card.uuid).and_then(|parts| parts.get(&id)).ok_or(NOT_FOUND)?;
        let placement = sys::nvmlGpuInstancePlacement_t { start: part.start, size: part.size };
        let device = (handle as usize / CARD * CARD) as nvmlDevice_t;
        put(at, sys::nvmlGpuInstanceInfo_t { device, id, profileId: part.profile, placement })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceCreateGpuInstanceWithPlacement(
    handle: nvmlDevice_t,
    id: c_uint,
    place: *const sys::nvmlGpuInstancePlacement_t,
    at: *mut sys::nvmlGpuInstance_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let profile = profile(&card, id)?;
        // SAFETY: the caller gives one structure.
        let place = unsafe { place.as_ref() }.ok_or(INVALID)?;
        if !profile.starts.contains(&place.start) || profile.size != place.size {
            return Err(INVALID);
        }
        let mut hardware = state.hardware();
        if !hardware.split.get(&card.uuid).copied().unwrap_or(false) {
            return Err(UNSUPPORTED);
        }
        let parts = hardware.parts.entry(card.uuid.clone()).or_default();
        let overlaps =
            |part: &Part| part.start < place.start + place.size && place.start < part.start + part.size;
        if parts.values().any(overlaps) {
            return Err(FULL);
        }
        let number = (0..).find(|number| !parts.contains_key(number)).unwrap_or(0);
        parts.insert(number, Part { profile: id, start: place.start, size: place.size, filled: false });
        if !state.keep(&hardware) {
            return Err(INVALID);
        }
        put(at, (handle as usize / CARD * CARD + INSTANCE + number as usize + 1) as sys::nvmlGpuInstance_t)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceDestroy(handle: sys::nvmlGpuInstance_t) -> nvmlReturn_t {
    with(|state| {
        change(state, handle.cast(), |parts, id| match parts.remove(&id) {
            Some(part) if part.filled => Err(IN_USE),
            Some(_) => Ok(()),
            None => Err(NOT_FOUND),
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    handle: sys::nvmlGpuInstance_t,
    number: c_uint,
    _engine: c_uint,
    at: *mut sys::nvmlComputeInstanceProfileInfo_t,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let hardware = state.hardware();
        let parts = hardware.parts.get(&card.uuid).ok_or(NOT_FOUND)?;
        let part = parts.get(&instance_of(handle.cast())).ok_or(NOT_FOUND)?;
        let slices = profile(&card, part.profile)?.slices;
        if number != 0 {
            return Err(UNSUPPORTED);
        }
        // SAFETY: the caller gives one structure.
        let info = unsafe { at.as_mut() }.ok_or(INVALID)?;
        info.id = 0;
        info.sliceCount = slices;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceCreateComputeInstance(
    handle: sys::nvmlGpuInstance_t,
    _profile: c_uint,
    at: *mut sys::nvmlComputeInstance_t,
) -> nvmlReturn_t {
    with(|state| {
        change(state, handle.cast(), |parts, id| {
            parts.get_mut(&id).ok_or(NOT_FOUND)?.filled = true;
            Ok(())
        })?;
        put(at, (handle as usize - INSTANCE + COMPUTE) as sys::nvmlComputeInstance_t)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstances(
    handle: sys::nvmlGpuInstance_t,
    _profile: c_uint,
    at: *mut sys::nvmlComputeInstance_t,
    count: *mut c_uint,
) -> nvmlReturn_t {
    with(|state| {
        let card = card(state, handle.cast())?;
        let hardware = state.hardware();
        let part = hardware.parts.get(&card.uuid).and_then(|parts| parts.get(&instance_of(handle.cast())));
        let filled = part.ok_or(NOT_FOUND)?.filled;
        if filled {
            put(at, (handle as usize - INSTANCE + COMPUTE) as sys::nvmlComputeInstance_t)?;
        }
        put(count, filled.into())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceDestroy(handle: sys::nvmlComputeInstance_t) -> nvmlReturn_t {
    with(|state| {
        change(state, handle.cast(), |parts, id| {
            parts.get_mut(&id).ok_or(NOT_FOUND)?.filled = false;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetCreate(at: *mut sys::nvmlEventSet_t) -> nvmlReturn_t {
    with(|state| put(at, (present(state)?.1 + 1) as sys::nvmlEventSet_t))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_set: sys::nvmlEventSet_t) -> nvmlReturn_t {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetSupportedEventTypes(
    handle: nvmlDevice_t,
    at: *mut c_ulonglong,
) -> nvmlReturn_t {
    with(|state| card(state, handle.cast()).and_then(|_| put(at, 0xff9f)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(
    handle: nvmlDevice_t,
    _kinds: c_ulonglong,
    _set: sys::nvmlEventSet_t,
) -> nvmlReturn_t {
    with(|state| card(state, handle.cast()).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait_v2(
    set: sys::nvmlEventSet_t,
    at: *mut sys::nvmlEventData_t,
    timeout_ms: c_uint,
) -> nvmlReturn_t {
    let mut left = Duration::from_millis(timeout_ms.into());
    loop {
        let (mut found, mut of_module) = (None, 0);
        let answer = with(|state| {
            let (script, module) = present(state)?;
            if set as usize != module + 1 {
                return Err(INVALID);
            }
            of_module = module;
            let mut hardware = state.hardware();
            found = script.event(hardware.delivered).cloned();
            hardware.delivered += usize::from(found.is_some());
            if found.is_none() || state.keep(&hardware) { Ok(()) } else { Err(INVALID) }
        });
        if answer != OK {
            return answer;
        }
        if let Some(event) = found {
            let data = sys::nvmlEventData_t {
                device: (of_module * MODULE + (event.card + 1) * CARD) as nvmlDevice_t,
                eventType: event.kind,
                eventData: event.data,
                gpuInstanceId: event.gpu_instance.unwrap_or(u32::MAX),
                computeInstanceId: event.gpu_instance.map_or(u32::MAX, |_| 0),
            };
            return put(at, data).err().unwrap_or(OK);
        }
        if left.is_zero() {
            return TIMEOUT;
        }
        let pause = left.min(LOOK_EVERY);
        std::thread::sleep(pause);
        left -= pause;
    }
}
