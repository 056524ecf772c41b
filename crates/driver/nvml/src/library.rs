//! Finding and loading the library.

use std::{
    ffi::{CStr, c_char},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nvml_wrapper_sys::bindings::NvmlLib;

use crate::{Card, Error, Events, LoadError, card::Handle};

/// The library's file name.
pub const LIBRARY: &str = "libnvidia-ml.so.1";
/// Where it is looked for after the loader's own places. Layouts differ between distributions and driver containers.
const DIRECTORIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
];
/// The longest text that NVML returns, with its end.
const TEXT_BYTES_MAX: u8 = 128;

/// The library, initialized. Clones share it; it is shut down with the last of them and their cards.
#[derive(Clone)]
pub struct Nvml {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) symbols: NvmlLib,
    path: PathBuf,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = call!(self, nvmlShutdown);
    }
}

impl fmt::Debug for Nvml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvml").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// Calls a function of the library, if it has it.
macro_rules! call {
    ($shared:expr, $function:ident $(, $argument:expr)* $(,)?) => {
        match &$shared.symbols.$function {
            // SAFETY: the symbol was found in the library, which is loaded as long as `$shared` lives, and its type is that of
            // NVML's header. Each argument is a handle that the library gave out, a number, or a pointer to a place of the
            // caller's that is large enough and lives longer than the call.
            Ok(function) => $crate::Error::check(stringify!($function), unsafe { function($($argument),*) }),
            Err(_) => Err($crate::Error::missing(stringify!($function))),
        }
    };
}
pub(crate) use call;

impl Nvml {
    /// Loads the library at this path, or wherever it is found.
    ///
    /// # Errors
    /// When there is none, or it cannot work.
    pub fn load(path: Option<&Path>) -> Result<Self, LoadError> {
        let candidates: Vec<PathBuf> = match path {
            Some(path) => vec![path.to_owned()],
            None => std::iter::once(PathBuf::from(LIBRARY))
                .chain(DIRECTORIES.iter().map(|directory| Path::new(directory).join(LIBRARY)))
                .collect(),
        };
        for candidate in &candidates {
            // The first is a name for the loader to find; the others are files.
            let is_name = candidate.components().count() == 1;
            if !is_name && !candidate.exists() {
                continue;
            }
            // SAFETY: the file is NVIDIA's library, or the one that the administrator named: its initializers are trusted as
            // the driver's kernel module is.
            match unsafe { NvmlLib::new(candidate) } {
                Ok(symbols) => return Self::initialize(symbols, candidate),
                Err(_) if is_name => {}
                Err(error) => {
                    return Err(LoadError::Broken { path: candidate.clone(), why: error.to_string() });
                }
            }
        }
        Err(LoadError::Missing { searched: candidates })
    }

    fn initialize(symbols: NvmlLib, path: &Path) -> Result<Self, LoadError> {
        let shared = Arc::new(Shared { symbols, path: path.to_owned() });
        let initialized = call!(shared, nvmlInit_v2);
        initialized.map_err(|source| LoadError::Init { path: path.to_owned(), source })?;
        Ok(Self { shared })
    }

    /// The file, or the name by which the loader found it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The driver's version: `580.159.04`.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn driver_version(&self) -> Result<String, Error> {
        text(|at, length| call!(self.shared, nvmlSystemGetDriverVersion, at, length))
    }

    /// The version of CUDA that the driver supports, major and minor.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn cuda_version(&self) -> Result<(i32, i32), Error> {
        let mut version = 0;
        call!(self.shared, nvmlSystemGetCudaDriverVersion_v2, &raw mut version)?;
        Ok((version / 1000, version % 1000 / 10))
    }

    /// The cards, each with its index; an error for one that does not answer.
    ///
    /// # Errors
    /// When NVML refuses to count them.
    pub fn cards(&self) -> Result<Vec<Result<Card, Error>>, Error> {
        let mut count = 0;
        call!(self.shared, nvmlDeviceGetCount_v2, &raw mut count)?;
        let open = |index: u32| {
            let mut handle = Handle::null();
            call!(self.shared, nvmlDeviceGetHandleByIndex_v2, index, &raw mut handle.0)?;
            Ok(Card { nvml: self.clone(), handle, index })
        };
        Ok((0..count).map(open).collect())
    }

    /// A set of events; nothing is in it before a card is added.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn events(&self) -> Result<Events, Error> {
        Events::new(self)
    }
}

/// Reads a text that NVML writes.
pub(crate) fn text(write: impl FnOnce(*mut c_char, u32) -> Result<(), Error>) -> Result<String, Error> {
    let mut bytes: [c_char; TEXT_BYTES_MAX as usize] = [0; TEXT_BYTES_MAX as usize];
    // The last byte stays 0 whatever is written.
    write(bytes.as_mut_ptr(), u32::from(TEXT_BYTES_MAX) - 1)?;
    Ok(text_in(&bytes))
}

/// The text in a field of fixed size.
pub(crate) fn text_in(bytes: &[c_char]) -> String {
    // A `c_char` has a sign on x86_64 and none on aarch64.
    let bytes: Vec<u8> = bytes.iter().map(|byte| u8::from_ne_bytes(byte.to_ne_bytes())).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
