//! The configuration of GPUs in a claim: the objects of NVIDIA's own driver, as far as they are carried out here.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

const VERSION: &str = "resource.nvidia.com/v1beta1";
const KINDS: [&str; 2] = ["GpuConfig", "MigDeviceConfig"];

/// How a claim's GPUs are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The processes that share them.
    pub sharing: Sharing,
}

/// Which processes may use a GPU at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// As the card is set.
    #[default]
    AsItIs,
    /// Several, by turns of this length; none: as the card is set.
    TimeSlicing(Option<Interval>),
    /// One.
    Exclusive,
}

/// How long a turn is, as NVIDIA's driver names it. How many milliseconds that are is the card's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// The card's own default.
    Default,
    /// Shorter than others.
    Short,
    /// Between the two.
    Medium,
    /// Longer than others.
    Long,
}

impl Interval {
    const ALL: [(&str, Self); 4] =
        [("Default", Self::Default), ("Short", Self::Short), ("Medium", Self::Medium), ("Long", Self::Long)];

    /// As `nvidia-smi compute-policy --set-timeslice` takes it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Short => 1,
            Self::Medium => 2,
            Self::Long => 3,
        }
    }
}

/// Why a configuration is not carried out. Nothing is ignored.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It is not an object that is known.
    #[error("apiVersion must be {VERSION} and kind {kinds}: {found}", kinds = KINDS.join(" or "))]
    Kind {
        /// The version and kind of the object.
        found: String,
    },
    /// A field is wrong or not known.
    #[error("configuration of the GPU: {0}")]
    Form(serde_json::Error),
    /// It is known and not done.
    #[error("sharing.strategy {0:?} is not supported: use TimeSlicing or Exclusive")]
    Strategy(String),
    /// There is no such interval.
    #[error("sharing.timeSlicingConfig.interval {0:?} is not known: use Default, Short, Medium or Long")]
    Interval(String),
    /// An interval without turns.
    #[error("sharing.timeSlicingConfig is for strategy TimeSlicing only")]
    IntervalOfOne,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(rename = "apiVersion")]
    _version: String,
    #[serde(rename = "kind")]
    _kind: String,
    sharing: Option<WrittenSharing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenSharing {
    strategy: String,
    time_slicing_config: Option<TimeSlicing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TimeSlicing {
    interval: Option<String>,
}

impl Config {
    /// The last of several, which is the most important one.
    ///
    /// # Errors
    /// When any of them cannot be carried out.
    pub fn read(configs: &[Value]) -> Result<Self, ConfigError> {
        let mut last = Self::default();
        for config in configs {
            last = Self::read_one(config)?;
        }
        Ok(last)
    }

    fn read_one(config: &Value) -> Result<Self, ConfigError> {
        let (version, kind) = (&config["apiVersion"], &config["kind"]);
        if version != VERSION || !KINDS.iter().any(|known| kind == known) {
            return Err(ConfigError::Kind { found: format!("found {version} and {kind}") });
        }
        let written: Written = serde_json::from_value(config.clone()).map_err(ConfigError::Form)?;
        let Some(sharing) = written.sharing else { return Ok(Self::default()) };
        let config = sharing.time_slicing_config;
        let sharing = match sharing.strategy.as_str() {
            "TimeSlicing" => Sharing::TimeSlicing(config.map(interval).transpose()?),
            "Exclusive" if config.is_some() => return Err(ConfigError::IntervalOfOne),
            "Exclusive" => Sharing::Exclusive,
            _ => return Err(ConfigError::Strategy(sharing.strategy)),
        };
        Ok(Self { sharing })
    }
}

/// Without a name it is the default, as with NVIDIA's driver.
fn interval(config: TimeSlicing) -> Result<Interval, ConfigError> {
    let Some(name) = config.interval else { return Ok(Interval::Default) };
    let known = Interval::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, interval)| *interval).ok_or(ConfigError::Interval(name))
}
