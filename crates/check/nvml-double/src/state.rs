//! The cards, and the changes made to them.

use std::{
    collections::BTreeMap,
    ffi::{CStr, OsStr, c_void},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

const SCRIPT: &str = "script.json";
const HARDWARE: &str = "hardware.json";

/// The cards and their events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// The driver's version; empty: no kernel module.
    pub driver: String,
    /// The cards.
    pub cards: Vec<Card>,
    /// All events since the beginning. Each is delivered once.
    pub events: Vec<Event>,
    /// How often the kernel module was loaded again. A library that was initialized before that answers nothing until it is
    /// shut down and initialized anew, and its handles mean nothing after it.
    pub reloads: usize,
}

/// A card.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// `GPU-…`.
    pub uuid: String,
    /// The product.
    pub name: String,
    /// Of its device node.
    pub minor: u32,
    /// In bytes.
    pub memory: u64,
    /// It has fallen off the bus.
    pub lost: bool,
    /// Errors of memory that could not be corrected.
    pub ecc_uncorrected: u64,
    /// Rows wait for a reset.
    pub rows_pending: bool,
    /// Rows could not be replaced.
    pub rows_failed: bool,
    /// NVML's bits for why clocks are held down.
    pub slowdown: u64,
    /// NVML's number for what the driver recommends.
    pub recovery: u32,
    /// NVML's error for everything that is read of its health; 0: none.
    pub failing: u32,
    /// Partitions that it can have; empty: none.
    pub profiles: Vec<Profile>,
}

/// A kind of partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// NVML's number.
    pub id: u32,
    /// `1g.18gb`.
    pub name: String,
    /// Slices of compute.
    pub slices: u32,
    /// In MiB.
    pub memory: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Slices of memory that it takes.
    pub size: u32,
    /// Where it may begin.
    pub starts: Vec<u32>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// To which card.
    pub card: usize,
    /// NVML's bit.
    pub kind: u64,
    /// The XID.
    pub data: u64,
    /// In which GPU instance.
    pub gpu_instance: Option<u32>,
    /// How often again.
    pub repeated: usize,
}

/// The changes made to the cards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Events that were delivered.
    pub delivered: usize,
    /// By UUID, whether a card is split.
    pub split: BTreeMap<String, bool>,
    /// By UUID, the compute mode.
    pub modes: BTreeMap<String, u32>,
    /// By UUID, its partitions by GPU instance.
    pub parts: BTreeMap<String, BTreeMap<u32, Part>>,
}

/// A GPU instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The profile's number.
    pub profile: u32,
    /// The first slice of memory.
    pub start: u32,
    /// How many.
    pub size: u32,
    /// It has a compute instance.
    pub filled: bool,
}

impl Script {
    /// The event that comes after this many.
    pub(crate) fn event(&self, mut delivered: usize) -> Option<&Event> {
        self.events.iter().find(|event| match delivered.checked_sub(event.repeated + 1) {
            Some(left) => {
                delivered = left;
                false
            }
            None => true,
        })
    }

    /// Writes it; readers see the old one or this one.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        write(directory, SCRIPT, &serde_json::to_vec(self)?)
    }
}

impl Hardware {
    /// As it is now.
    #[must_use]
    pub fn read(directory: &Path) -> Self {
        read(directory, HARDWARE)
    }

    /// As an administrator has made it.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        write(directory, HARDWARE, &serde_json::to_vec(self)?)
    }
}

fn read<T: Default + for<'de> Deserialize<'de>>(directory: &Path, name: &str) -> T {
    let bytes = fs::read(directory.join(name)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.{}", std::process::id()));
    fs::write(&temporary, bytes)?;
    fs::rename(temporary, directory.join(name))
}

/// The state of this copy of the library.
pub(crate) struct State {
    directory: PathBuf,
    /// How often it was initialized and not shut down, and for which load of the kernel module.
    uses: usize,
    module: usize,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Where this copy of the library is.
fn own_path() -> Option<PathBuf> {
    // SAFETY: a structure of pointers, for which null is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a place for the answer, and the address is one of this library's functions.
    let found = unsafe { libc::dladdr(own_path as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader gives a text that ends with 0 and lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The state of this copy of the library; made at the first call.
pub(crate) fn state() -> MutexGuard<'static, Option<State>> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if state.is_none() {
        *state =
            own_path().and_then(|path| Some(State { directory: path.parent()?.into(), uses: 0, module: 0 }));
    }
    state
}

impl State {
    /// As real ones do, it counts: who initializes it a second time gets what the first one has.
    pub(crate) fn begin(&mut self) {
        if self.uses == 0 {
            self.module = self.script().reloads;
        }
        self.uses += 1;
    }

    pub(crate) fn end(&mut self) -> bool {
        let is_used = self.uses > 0;
        self.uses = self.uses.saturating_sub(1);
        is_used
    }

    /// The load of the kernel module that this library talks to, if it is there still.
    pub(crate) fn module(&self, script: &Script) -> Option<usize> {
        (self.uses > 0 && self.module == script.reloads).then_some(self.module)
    }

    pub(crate) fn script(&self) -> Script {
        read(&self.directory, SCRIPT)
    }

    pub(crate) fn hardware(&self) -> Hardware {
        Hardware::read(&self.directory)
    }

    pub(crate) fn keep(&self, hardware: &Hardware) -> bool {
        serde_json::to_vec(hardware).is_ok_and(|bytes| write(&self.directory, HARDWARE, &bytes).is_ok())
    }
}
