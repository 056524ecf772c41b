//! Errors of NVML.

use std::{fmt, path::PathBuf};

use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND as FUNCTION_NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST, nvmlReturn_enum_NVML_ERROR_IN_USE as IN_USE,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES as INSUFFICIENT_RESOURCES,
    nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH as VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_NO_PERMISSION as NO_PERMISSION,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED as RESET_REQUIRED,
    nvmlReturn_enum_NVML_ERROR_TIMEOUT as TIMEOUT, nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED,
    nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
};
use thiserror::Error as ThisError;

/// A call that NVML refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The function.
    pub call: &'static str,
    /// The code that it returned.
    pub code: u32,
}

impl Error {
    pub(crate) fn check(call: &'static str, code: u32) -> Result<(), Self> {
        if code == SUCCESS { Ok(()) } else { Err(Self { call, code }) }
    }

    pub(crate) fn missing(call: &'static str) -> Self {
        Self { call, code: FUNCTION_NOT_FOUND }
    }

    pub(crate) fn unknown(call: &'static str) -> Self {
        Self { call, code: UNKNOWN }
    }

    /// Whether the card, or this driver's version, does not have it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.code, NOT_SUPPORTED | FUNCTION_NOT_FOUND)
    }

    /// Whether the card does not answer any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.code, GPU_IS_LOST | RESET_REQUIRED)
    }

    /// Whether the library must be loaded anew: the kernel module is not the one it knew.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self.code, UNINITIALIZED | DRIVER_NOT_LOADED | VERSION_MISMATCH)
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.code == TIMEOUT
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.code {
            UNINITIALIZED => "the library is not initialized",
            DRIVER_NOT_LOADED => "the NVIDIA kernel module is not loaded",
            VERSION_MISMATCH => "the library and the kernel module have different versions",
            GPU_IS_LOST => "the GPU has fallen off the bus",
            RESET_REQUIRED => "the GPU requires a reset",
            NOT_SUPPORTED => "not supported by this GPU",
            FUNCTION_NOT_FOUND => "this version of the driver does not have it",
            NO_PERMISSION => "permission denied: run as root",
            IN_USE => "the GPU is in use",
            INSUFFICIENT_RESOURCES => "not enough room on the GPU",
            NOT_FOUND => "not found",
            code => return write!(f, "{}: NVML error {code}", self.call),
        };
        write!(f, "{}: {text}", self.call)
    }
}

impl std::error::Error for Error {}

/// Why there is no NVML.
#[derive(Debug, ThisError)]
pub enum LoadError {
    /// It is nowhere.
    #[error("libnvidia-ml.so.1 is not in {}: install the NVIDIA driver, or say where it is", list(searched))]
    Missing {
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// There is a file, and it is not a library.
    #[error("{path}: {why}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The loader's error.
        why: String,
    },
    /// It cannot work.
    #[error("{path}: {source}")]
    Init {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Error,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}
