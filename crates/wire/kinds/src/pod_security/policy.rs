//! The Pod Security labels of a namespace.

use std::fmt;

use lazaret_json::Value;

use crate::{Errors, Release, path::Path, value::text};

const PREFIX: &str = "pod-security.kubernetes.io/";
/// No check is newer than this release.
const NEWEST_CHECK_MINOR: u8 = 37;

/// How much a pod may do. In order: each allows less than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Privileged,
    /// Nothing by which a pod is known to get hold of its node.
    Baseline,
    /// As little as is usual.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level as a release had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    level: Level,
    /// The minor release; the latest if absent.
    minor: Option<u32>,
}

impl LevelVersion {
    const PRIVILEGED: Self = Self { level: Level::Privileged, minor: None };

    /// The level.
    #[must_use]
    pub fn level(self) -> Level {
        self.level
    }

    /// Whether its version is the same as that of another.
    #[must_use]
    pub fn has_version_of(self, other: Self) -> bool {
        self.minor == other.minor
    }

    pub(super) fn minor(self, release: Release) -> u8 {
        let newest = NEWEST_CHECK_MINOR.min(release.minor());
        self.minor.and_then(|minor| u8::try_from(minor).ok()).map_or(newest, |minor| minor.min(newest))
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            Some(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
            None => write!(f, "{}:latest", self.level.name()),
        }
    }
}

/// The levels that a namespace sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Other pods are refused.
    pub enforce: LevelVersion,
    /// Other pods are noted.
    pub audit: LevelVersion,
    /// Clients are warned of other pods.
    pub warn: LevelVersion,
}

impl Policy {
    /// Reads labels. An invalid label is enforced as strictly as can be, and neither noted nor warned of.
    #[must_use]
    pub fn of(labels: &Value, errors: &mut Errors) -> Self {
        let mut policy = Self {
            enforce: LevelVersion::PRIVILEGED,
            audit: LevelVersion::PRIVILEGED,
            warn: LevelVersion::PRIVILEGED,
        };
        let Some(all) = labels.as_object() else { return policy };
        if !all.iter().any(|(label, _)| label.starts_with(PREFIX)) {
            return policy;
        }
        let stated = |mode: &str| labels.get(format!("{PREFIX}{mode}").as_str()).is_some();
        let mut enforces = stated("enforce");
        let before = errors.len();
        policy.enforce.level = level(labels, "enforce", Level::Restricted, errors);
        enforces &= errors.len() == before;
        policy.enforce.minor = version(labels, "enforce", errors);
        policy.audit.level = level(labels, "audit", Level::Privileged, errors);
        policy.audit.minor = version(labels, "audit", errors);
        policy.warn.level = level(labels, "warn", Level::Privileged, errors);
        policy.warn.minor = version(labels, "warn", errors);
        // A namespace that enforces a level warns of it as well, unless a label sets the level of warnings.
        if !stated("warn") && enforces && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !stated("warn-version") {
                policy.warn.minor = policy.enforce.minor;
            }
        }
        policy
    }

    /// Whether every pod is accepted, without a note or a warning.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

fn level(labels: &Value, mode: &str, otherwise: Level, errors: &mut Errors) -> Level {
    let label = format!("{PREFIX}{mode}");
    if labels.get(label.as_str()).is_none() {
        return Level::Privileged;
    }
    let said = text(labels, &label);
    Level::parse(said).unwrap_or_else(|| {
        wrong(&label, said, "must be one of privileged, baseline, restricted", errors);
        otherwise
    })
}

fn version(labels: &Value, mode: &str, errors: &mut Errors) -> Option<u32> {
    let label = format!("{PREFIX}{mode}-version");
    labels.get(label.as_str())?;
    let said = text(labels, &label);
    if said == "latest" {
        return None;
    }
    let minor = said.strip_prefix("v1.").filter(|minor| *minor == "0" || !minor.starts_with(['0', '+']));
    let minor = minor.and_then(|minor| minor.parse().ok());
    if minor.is_none() {
        wrong(&label, said, "must be \"latest\" or \"v1.x\"", errors);
    }
    minor
}

fn wrong(label: &str, said: &str, why: &str, errors: &mut Errors) {
    let path = Path::root("metadata");
    errors.invalid(path.field("labels").key(label), said, why);
}
