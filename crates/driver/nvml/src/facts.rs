//! Properties of a GPU.

use nvml_wrapper_sys::bindings as sys;

use crate::{
    Card, Error,
    library::{call, text, text_in},
};

/// Properties that do not change while a driver is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `GPU-…`: the same whatever slot it is in.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub product: String,
    /// `Nvidia`, `Tesla`, …
    pub brand: String,
    /// `Hopper`, …
    pub architecture: String,
    /// Major and minor.
    pub compute_capability: (i32, i32),
    /// In bytes.
    pub memory_bytes: u64,
    /// As in sysfs: `0000:00:06.0`.
    pub pci_address: String,
    /// Of its device node: `/dev/nvidia0` has 0.
    pub minor: u32,
    /// Of the board; absent where it has none.
    pub serial: Option<String>,
    /// Whether it is split into partitions; absent where it cannot be.
    pub is_partitioned: Option<bool>,
}

impl Card {
    /// Reads its properties.
    ///
    /// # Errors
    /// When NVML refuses a property that every GPU has.
    pub fn facts(&self) -> Result<Facts, Error> {
        let shared = &self.nvml.shared;
        let handle = self.handle.0;
        let product = text(|at, length| call!(shared, nvmlDeviceGetName, handle, at, length))?;
        let (mut brand, mut architecture) = (0, 0);
        call!(shared, nvmlDeviceGetBrand, handle, &raw mut brand)?;
        call!(shared, nvmlDeviceGetArchitecture, handle, &raw mut architecture)?;
        let (mut major, mut minor) = (0, 0);
        call!(shared, nvmlDeviceGetCudaComputeCapability, handle, &raw mut major, &raw mut minor)?;
        let mut memory = sys::nvmlMemory_t { total: 0, free: 0, used: 0 };
        call!(shared, nvmlDeviceGetMemoryInfo, handle, &raw mut memory)?;
        let mut number = 0;
        call!(shared, nvmlDeviceGetMinorNumber, handle, &raw mut number)?;
        let serial = text(|at, length| call!(shared, nvmlDeviceGetSerial, handle, at, length)).ok();
        Ok(Facts {
            uuid: self.uuid()?,
            product,
            brand: brand_name(brand).into(),
            architecture: architecture_name(architecture).into(),
            compute_capability: (major, minor),
            memory_bytes: memory.total,
            pci_address: self.pci_address()?,
            minor: number,
            serial: serial.filter(|serial| !serial.is_empty()),
            is_partitioned: self.is_partitioned()?,
        })
    }

    fn pci_address(&self) -> Result<String, Error> {
        let mut pci = sys::nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        call!(self.nvml.shared, nvmlDeviceGetPciInfo_v3, self.handle.0, &raw mut pci)?;
        // NVML: 8 digits of domain, in capitals. The kernel: 4, in small letters.
        let text = text_in(&pci.busId).to_lowercase();
        Ok(text.strip_prefix("0000").filter(|rest| rest.len() == 12).unwrap_or(&text).to_owned())
    }
}

fn brand_name(brand: u32) -> &'static str {
    match brand {
        sys::nvmlBrandType_enum_NVML_BRAND_QUADRO => "Quadro",
        sys::nvmlBrandType_enum_NVML_BRAND_TESLA => "Tesla",
        sys::nvmlBrandType_enum_NVML_BRAND_NVS => "NVS",
        sys::nvmlBrandType_enum_NVML_BRAND_GRID => "Grid",
        sys::nvmlBrandType_enum_NVML_BRAND_GEFORCE => "GeForce",
        sys::nvmlBrandType_enum_NVML_BRAND_TITAN => "Titan",
        sys::nvmlBrandType_enum_NVML_BRAND_QUADRO_RTX => "QuadroRTX",
        sys::nvmlBrandType_enum_NVML_BRAND_NVIDIA_RTX => "NvidiaRTX",
        sys::nvmlBrandType_enum_NVML_BRAND_NVIDIA => "Nvidia",
        sys::nvmlBrandType_enum_NVML_BRAND_GEFORCE_RTX => "GeForceRTX",
        sys::nvmlBrandType_enum_NVML_BRAND_TITAN_RTX => "TitanRTX",
        _ => "Unknown",
    }
}

fn architecture_name(architecture: u32) -> &'static str {
    match architecture {
        2 => "Kepler",
        3 => "Maxwell",
        4 => "Pascal",
        5 => "Volta",
        6 => "Turing",
        7 => "Ampere",
        8 => "Ada Lovelace",
        9 => "Hopper",
        10 => "Blackwell",
        _ => "Unknown",
    }
}
