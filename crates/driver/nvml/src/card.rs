//! One GPU.

use std::fmt;

use nvml_wrapper_sys::bindings::{
    nvmlComputeMode_enum_NVML_COMPUTEMODE_DEFAULT as DEFAULT,
    nvmlComputeMode_enum_NVML_COMPUTEMODE_EXCLUSIVE_PROCESS as EXCLUSIVE_PROCESS,
    nvmlComputeMode_enum_NVML_COMPUTEMODE_PROHIBITED as PROHIBITED, nvmlDevice_t,
};

use crate::{
    Error, Nvml,
    library::{call, text},
};

/// NVML's handle of a device.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) nvmlDevice_t);

// SAFETY: NVML is thread-safe by its documentation, and a handle is an opaque value that it interprets.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }
}

/// A GPU, or a partition of one.
#[derive(Clone)]
pub struct Card {
    pub(crate) nvml: Nvml,
    pub(crate) handle: Handle,
    /// Its number for NVML; it may be another one after a restart.
    pub index: u32,
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Which programs may use a GPU at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Several, by turns.
    Default,
    /// One process.
    ExclusiveProcess,
    /// None.
    Prohibited,
    /// One that this version does not know.
    Other(u32),
}

impl ComputeMode {
    /// As NVML numbers them.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Default => DEFAULT,
            Self::ExclusiveProcess => EXCLUSIVE_PROCESS,
            Self::Prohibited => PROHIBITED,
            Self::Other(number) => number,
        }
    }
}

impl From<u32> for ComputeMode {
    fn from(number: u32) -> Self {
        match number {
            DEFAULT => Self::Default,
            EXCLUSIVE_PROCESS => Self::ExclusiveProcess,
            PROHIBITED => Self::Prohibited,
            other => Self::Other(other),
        }
    }
}

impl Card {
    /// Its identifier, whatever its index: `GPU-…`, of a partition `MIG-…`.
    ///
    /// # Errors
    /// When NVML refuses: the card may be lost.
    pub fn uuid(&self) -> Result<String, Error> {
        text(|at, length| call!(self.nvml.shared, nvmlDeviceGetUUID, self.handle.0, at, length))
    }

    /// Which programs may use it at the same time.
    ///
    /// # Errors
    /// When NVML refuses.
    pub fn compute_mode(&self) -> Result<ComputeMode, Error> {
        let mut mode = 0;
        call!(self.nvml.shared, nvmlDeviceGetComputeMode, self.handle.0, &raw mut mode)?;
        Ok(mode.into())
    }

    /// Says which programs may use it at the same time.
    ///
    /// # Errors
    /// When NVML refuses; it needs root.
    pub fn set_compute_mode(&self, mode: ComputeMode) -> Result<(), Error> {
        call!(self.nvml.shared, nvmlDeviceSetComputeMode, self.handle.0, mode.number())
    }
}
