//! What a claim may say about its GPUs: the objects of NVIDIA's own driver, as far as they are carried out here.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

const VERSION: &str = "resource.nvidia.com/v1beta1";
const KINDS: [&str; 2] = ["GpuConfig", "MigDeviceConfig"];

/// How a claim's GPUs are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// By whom at the same time.
    pub sharing: Sharing,
}

/// Which processes may use a GPU at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// As the card is set.
    #[default]
    AsItIs,
    /// Several, by turns.
    TimeSlicing,
    /// One.
    Exclusive,
}

/// Why a configuration is not carried out. Nothing is ignored.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It is not an object that is known.
    #[error("apiVersion must be {VERSION} and kind {kinds}: {found}", kinds = KINDS.join(" or "))]
    Kind {
        /// What was written.
        found: String,
    },
    /// A field is wrong or not known.
    #[error("configuration of the GPU: {0}")]
    Form(serde_json::Error),
    /// It is known and not done.
    #[error("sharing.strategy {0:?} is not supported: use TimeSlicing or Exclusive")]
    Strategy(String),
    /// It is known and not done.
    #[error("sharing.timeSlicingConfig.interval {0:?} is not supported: leave it out, or use Default")]
    Interval(String),
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
        let interval = sharing.time_slicing_config.and_then(|config| config.interval);
        if let Some(interval) = interval.filter(|interval| interval != "Default") {
            return Err(ConfigError::Interval(interval));
        }
        let sharing = match sharing.strategy.as_str() {
            "TimeSlicing" => Sharing::TimeSlicing,
            "Exclusive" => Sharing::Exclusive,
            _ => return Err(ConfigError::Strategy(sharing.strategy)),
        };
        Ok(Self { sharing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_carried_out_is_refused() {
        let config = |sharing: Value| json!({"apiVersion": VERSION, "kind": "GpuConfig", "sharing": sharing});
        for (written, wanted) in [
            (config(json!({"strategy": "TimeSlicing"})), Ok(Sharing::TimeSlicing)),
            (config(json!({"strategy": "Exclusive"})), Ok(Sharing::Exclusive)),
            (json!({"apiVersion": VERSION, "kind": "MigDeviceConfig"}), Ok(Sharing::AsItIs)),
            (config(json!({"strategy": "MPS"})), Err("sharing.strategy \"MPS\"")),
            (
                config(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})),
                Err("\"Long\""),
            ),
            (config(json!({"strategy": "Exclusive", "mps": 1})), Err("unknown field `mps`")),
            (json!({"apiVersion": "v1", "kind": "GpuConfig"}), Err("apiVersion must be")),
        ] {
            match (Config::read(&[written]), wanted) {
                (Ok(read), Ok(wanted)) => assert_eq!(read.sharing, wanted),
                (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (read, wanted) => panic!("{read:?} {wanted:?}"),
            }
        }
    }
}
