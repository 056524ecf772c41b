//! How devices are named on a command line: `driver/pool/device`, shorter where that is enough, `*` for any part.

use std::fmt;

use lazaret_model::{DeviceId, DeviceSelector};

use super::near::nearest;

/// A device, or devices, as somebody wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    written: String,
    driver: Part,
    pool: Part,
    device: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Not written: whatever it is, there must be only one.
    Open,
    /// `*`.
    Any,
    /// With `*` in it.
    Glob(String),
    /// A name.
    Is(String),
}

impl Part {
    fn parse(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            glob if glob.contains('*') => Self::Glob(glob.to_owned()),
            name => Self::Is(name.to_owned()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Open | Self::Any => true,
            Self::Glob(glob) => matches_glob(glob, text),
            Self::Is(name) => name == text,
        }
    }
}

/// `*` stands for any characters.
fn matches_glob(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

impl Reference {
    /// Reads `device`, `pool/device` or `driver/pool/device`. A pool may have `/` in its name: what is between the first and the last part is
    /// the pool.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} names no device: write DRIVER/POOL/DEVICE, as `kubectl device list -o name` prints it"
            )
        };
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) || text.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let (driver, pool, device) = match parts.as_slice() {
            [device] => (Part::Open, Part::Open, Part::parse(device)),
            [pool, device] => (Part::Open, Part::parse(pool), Part::parse(device)),
            [driver, pool @ .., device] => {
                (Part::parse(driver), Part::parse(&pool.join("/")), Part::parse(device))
            }
            [] => return Err(wrong()),
        };
        Ok(Self { written: text.to_owned(), driver, pool, device })
    }

    /// Just this device.
    #[must_use]
    pub fn exact(id: &DeviceId) -> Self {
        Self {
            written: id.to_string(),
            driver: Part::Is(id.driver.to_string()),
            pool: Part::Is(id.pool.to_string()),
            device: Part::Is(id.device.to_string()),
        }
    }

    /// Whether it may mean this device.
    #[must_use]
    pub fn matches(&self, id: &DeviceId) -> bool {
        self.driver.matches(&id.driver) && self.pool.matches(&id.pool) && self.device.matches(&id.device)
    }

    /// The device of which all three names are written.
    #[must_use]
    pub fn device_id(&self) -> Option<DeviceId> {
        match (&self.driver, &self.pool, &self.device) {
            (Part::Is(driver), Part::Is(pool), Part::Is(device)) => {
                Some(DeviceId::new(driver.as_str(), pool.as_str(), device.as_str()))
            }
            _ => None,
        }
    }

    /// The selector of a rule that means exactly this, where a rule can say it: a rule compares whole names, and what was left out is not
    /// the same as what was said to be anything.
    #[must_use]
    pub fn selector(&self) -> Option<DeviceSelector> {
        let name = |part: &Part| match part {
            Part::Any => Some(None),
            Part::Is(name) => Some(Some(name.as_str().into())),
            Part::Open | Part::Glob(_) => None,
        };
        Some(DeviceSelector {
            driver: name(&self.driver)?,
            pool: name(&self.pool)?,
            device: name(&self.device)?,
            ..DeviceSelector::default()
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// How many candidates a refusal names.
const CANDIDATES_SHOWN_MAX: usize = 5;

/// The devices that a reference means. More than one only where `all` was said.
///
/// # Errors
/// When it means none, with the nearest names, or several and nobody said that several are meant.
pub fn resolve<'a>(
    reference: &Reference,
    known: &'a [DeviceId],
    all: bool,
) -> Result<Vec<&'a DeviceId>, String> {
    let found: Vec<&DeviceId> = known.iter().filter(|id| reference.matches(id)).collect();
    match found.len() {
        0 => Err(nothing(reference, known)),
        1 => Ok(found),
        _ if all => Ok(found),
        count => Err(format!(
            "{reference} matches {count} devices: name one of them, or add --all for all of them\n{}",
            shown(&found)
        )),
    }
}

/// The one device that a reference means.
///
/// # Errors
/// When it means none, or several.
pub fn resolve_one<'a>(reference: &Reference, known: &'a [DeviceId]) -> Result<&'a DeviceId, String> {
    match resolve(reference, known, true)?.as_slice() {
        [one] => Ok(one),
        several => Err(format!(
            "{reference} matches {} devices: name one of them\n{}",
            several.len(),
            shown(several)
        )),
    }
}

fn shown(found: &[&DeviceId]) -> String {
    let mut lines: Vec<String> =
        found.iter().take(CANDIDATES_SHOWN_MAX).map(|id| format!("  {id}")).collect();
    if let more @ 1.. = found.len().saturating_sub(CANDIDATES_SHOWN_MAX) {
        lines.push(format!("  and {more} more"));
    }
    lines.join("\n")
}

fn nothing(reference: &Reference, known: &[DeviceId]) -> String {
    if known.is_empty() {
        return format!("no device {reference}: the cluster has no devices");
    }
    let full: Vec<String> = known.iter().map(ToString::to_string).collect();
    let mut near = nearest(&reference.written, full.iter().map(String::as_str));
    if near.is_empty() {
        // The reference may be a short form: compare it with short forms.
        let short = known.iter().map(|id| format!("{}/{}", id.pool, id.device)).collect::<Vec<_>>();
        let names = nearest(&reference.written, short.iter().map(String::as_str));
        near = names
            .iter()
            .filter_map(|name| Some(full.get(short.iter().position(|short| short == name)?)?.as_str()))
            .collect();
    }
    if near.is_empty() {
        format!("no device {reference}: `kubectl device list -o name` shows all {}", known.len())
    } else {
        format!("no device {reference}; nearest names:\n  {}", near.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<DeviceId> {
        ["node-1", "node-2"]
            .into_iter()
            .flat_map(|pool| ["gpu-0", "gpu-1"].map(|device| DeviceId::new("gpu.example.com", pool, device)))
            .chain([DeviceId::new("nic.example.com", "rack/7", "port-0")])
            .collect()
    }

    fn resolved(text: &str, all: bool) -> Result<Vec<String>, String> {
        let known = known();
        let found = resolve(&Reference::parse(text)?, &known, all)?;
        Ok(found.into_iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_name_means_one_device_unless_all_are_meant() {
        assert_eq!(
            resolved("gpu.example.com/node-1/gpu-0", false).unwrap(),
            ["gpu.example.com/node-1/gpu-0"]
        );
        assert_eq!(resolved("node-2/gpu-1", false).unwrap(), ["gpu.example.com/node-2/gpu-1"]);
        assert_eq!(resolved("nic.example.com/rack/7/port-0", false).unwrap().len(), 1);
        assert_eq!(resolved("port-0", false).unwrap().len(), 1);
        let refused = resolved("gpu-0", false).unwrap_err();
        assert!(refused.starts_with("gpu-0 matches 2 devices"), "{refused}");
        assert_eq!(resolved("gpu-0", true).unwrap().len(), 2);
        assert_eq!(resolved("gpu.example.com/node-*/gpu-0", true).unwrap().len(), 2);
        assert!(resolved("gpu.example.com/node-1/*", false).is_err());
    }

    #[test]
    fn near_misses_are_named() {
        let refused = resolved("gpu.example.com/node-1/gpu-7", false).unwrap_err();
        assert!(refused.contains("gpu.example.com/node-1/gpu-0"), "{refused}");
        let refused = resolved("nod-1/gpu-1", false).unwrap_err();
        assert!(refused.contains("gpu.example.com/node-1/gpu-1"), "{refused}");
        assert!(resolved("zzzzzz", false).unwrap_err().contains("shows all 5"));
        assert!(Reference::parse("a//b").is_err());
    }

    #[test]
    fn globs() {
        for (glob, text, matches) in [
            ("gpu-*", "gpu-0", true),
            ("*-0", "gpu-0", true),
            ("g*u*0", "gpu-0", true),
            ("g*x*0", "gpu-0", false),
            ("gpu-*", "nic-0", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_glob(glob, text), matches, "{glob} {text}");
        }
    }
}
