//! How a GPU is.

use nvml_wrapper_sys::bindings as sys;

use crate::{Card, Error, library::call};

/// Rows of memory that were replaced by spare ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemappedRows {
    /// For errors that could be corrected.
    pub correctable: u32,
    /// For errors that could not.
    pub uncorrectable: u32,
    /// Some are replaced at the next reset.
    pub pending: bool,
    /// Some could not be replaced.
    pub failed: bool,
}

/// Why clocks are held down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// The chip is too hot.
    pub thermal: bool,
    /// The power supply asks for it.
    pub power_brake: bool,
}

/// The connection with other GPUs over NVSwitch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Not yet begun.
    NotStarted,
    /// Under way.
    InProgress,
    /// Complete.
    Ready,
    /// It ended with an error of NVML.
    Failed(u32),
}

/// The recovery action that the driver recommends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Nothing.
    None,
    /// A reset of the GPU.
    Reset,
    /// A restart of the machine.
    Reboot,
    /// No new work that uses other GPUs.
    DrainPeers,
    /// No new work, then a reset.
    DrainAndReset,
    /// One that this version does not know.
    Other(u64),
}

impl RecoveryAction {
    /// For a taint's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Reset => "reset",
            Self::Reboot => "reboot",
            Self::DrainPeers => "drain-peers",
            Self::DrainAndReset => "drain-and-reset",
            Self::Other(_) => "unknown",
        }
    }
}

/// Values that can be read at any time. A value that a card does not support is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Errors of memory since the driver was loaded that could not be corrected.
    pub ecc_uncorrected: Option<u64>,
    /// The same, since the card was made.
    pub ecc_uncorrected_ever: Option<u64>,
    /// Errors of memory since the driver was loaded that were corrected.
    pub ecc_corrected: Option<u64>,
    /// Rows that were replaced.
    pub rows: Option<RemappedRows>,
    /// Pages are taken out of use at the next restart of the driver. Cards without row remapping.
    pub retirement_pending: Option<bool>,
    /// Why clocks are held down.
    pub slowdown: Option<Slowdown>,
    /// In degrees Celsius.
    pub temperature: Option<u32>,
    /// Connections over NVLink that were lost and made again.
    pub nvlink_recoveries: Option<u64>,
    /// The connection with other GPUs.
    pub fabric: Option<Fabric>,
    /// The recovery action that the driver recommends.
    pub recovery: Option<RecoveryAction>,
}

impl Card {
    /// How it is.
    ///
    /// # Errors
    /// When the card is lost, or NVML must be loaded anew; and when it answers nothing at all, for a reason other than that it
    /// does not support it: the health of such a card is unknown.
    pub fn readings(&self) -> Result<Readings, Error> {
        let readings = self.read_all()?;
        if readings == Readings::default() {
            let mut degrees = 0;
            let asked =
                call!(self.nvml.shared, nvmlDeviceGetTemperature, self.handle.0, CHIP, &raw mut degrees);
            if let Err(error) = asked
                && !error.is_unsupported()
            {
                return Err(error);
            }
        }
        Ok(readings)
    }

    fn read_all(&self) -> Result<Readings, Error> {
        Ok(Readings {
            ecc_uncorrected: self.ecc(UNCORRECTED, VOLATILE)?,
            ecc_uncorrected_ever: self.ecc(UNCORRECTED, AGGREGATE)?,
            ecc_corrected: self.ecc(CORRECTED, VOLATILE)?,
            rows: self.rows()?,
            retirement_pending: self.retirement_pending()?,
            slowdown: self.slowdown()?,
            temperature: self.temperature()?,
            nvlink_recoveries: self.field(sys::field_id::NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY)?,
            fabric: self.fabric()?,
            recovery: self.field(sys::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)?.map(recovery),
        })
    }

    fn ecc(&self, kind: u32, counter: u32) -> Result<Option<u64>, Error> {
        let mut count = 0;
        let asked = call!(
            self.nvml.shared,
            nvmlDeviceGetTotalEccErrors,
            self.handle.0,
            kind,
            counter,
            &raw mut count
        );
        supported(asked).map(|has| has.then_some(count))
    }

    fn rows(&self) -> Result<Option<RemappedRows>, Error> {
        let (mut correctable, mut uncorrectable, mut pending, mut failed) = (0, 0, 0, 0);
        let asked = call!(
            self.nvml.shared,
            nvmlDeviceGetRemappedRows,
            self.handle.0,
            &raw mut correctable,
            &raw mut uncorrectable,
            &raw mut pending,
            &raw mut failed
        );
        let rows = RemappedRows { correctable, uncorrectable, pending: pending != 0, failed: failed != 0 };
        supported(asked).map(|has| has.then_some(rows))
    }

    fn retirement_pending(&self) -> Result<Option<bool>, Error> {
        let mut pending = 0;
        let asked =
            call!(self.nvml.shared, nvmlDeviceGetRetiredPagesPendingStatus, self.handle.0, &raw mut pending);
        supported(asked).map(|has| has.then_some(pending != 0))
    }

    fn slowdown(&self) -> Result<Option<Slowdown>, Error> {
        let mut reasons = 0;
        let asked =
            call!(self.nvml.shared, nvmlDeviceGetCurrentClocksEventReasons, self.handle.0, &raw mut reasons);
        let slowdown = Slowdown {
            thermal: reasons & u64::from(sys::nvmlClocksThrottleReasonHwThermalSlowdown) != 0,
            power_brake: reasons & u64::from(sys::nvmlClocksThrottleReasonHwPowerBrakeSlowdown) != 0,
        };
        supported(asked).map(|has| has.then_some(slowdown))
    }

    fn temperature(&self) -> Result<Option<u32>, Error> {
        let mut degrees = 0;
        let asked = call!(self.nvml.shared, nvmlDeviceGetTemperature, self.handle.0, CHIP, &raw mut degrees);
        supported(asked).map(|has| has.then_some(degrees))
    }

    fn fabric(&self) -> Result<Option<Fabric>, Error> {
        // SAFETY: a structure of numbers and bytes, for which zero is a value.
        let mut info: sys::nvmlGpuFabricInfo_t = unsafe { std::mem::zeroed() };
        let asked = call!(self.nvml.shared, nvmlDeviceGetGpuFabricInfo, self.handle.0, &raw mut info);
        if !supported(asked)? {
            return Ok(None);
        }
        Ok(match u32::from(info.state) {
            sys::NVML_GPU_FABRIC_STATE_NOT_STARTED => Some(Fabric::NotStarted),
            sys::NVML_GPU_FABRIC_STATE_IN_PROGRESS => Some(Fabric::InProgress),
            sys::NVML_GPU_FABRIC_STATE_COMPLETED if info.status == 0 => Some(Fabric::Ready),
            sys::NVML_GPU_FABRIC_STATE_COMPLETED => Some(Fabric::Failed(info.status)),
            _ => None,
        })
    }

    fn field(&self, id: u32) -> Result<Option<u64>, Error> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut value: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        value.fieldId = id;
        let asked = call!(self.nvml.shared, nvmlDeviceGetFieldValues, self.handle.0, 1, &raw mut value);
        if !supported(asked)? || value.nvmlReturn != 0 {
            return Ok(None);
        }
        // SAFETY: each member of the union is a plain number, and NVML says which one it wrote.
        let number = unsafe {
            match value.valueType {
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => u64::from(value.value.uiVal),
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => value.value.ulVal,
                sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => value.value.ullVal,
                _ => return Ok(None),
            }
        };
        Ok(Some(number))
    }
}

/// Errors that concern one figure alone leave it out; the others concern the card.
fn supported(asked: Result<(), Error>) -> Result<bool, Error> {
    match asked {
        Ok(()) => Ok(true),
        Err(error) if error.is_lost() || error.is_stale() => Err(error),
        Err(_) => Ok(false),
    }
}

fn recovery(number: u64) -> RecoveryAction {
    match number {
        0 => RecoveryAction::None,
        1 => RecoveryAction::Reset,
        2 => RecoveryAction::Reboot,
        3 => RecoveryAction::DrainPeers,
        4 => RecoveryAction::DrainAndReset,
        other => RecoveryAction::Other(other),
    }
}

const CORRECTED: u32 = sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED;
const UNCORRECTED: u32 = sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
const VOLATILE: u32 = sys::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;
const AGGREGATE: u32 = sys::nvmlEccCounterType_enum_NVML_AGGREGATE_ECC;
const CHIP: u32 = sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
