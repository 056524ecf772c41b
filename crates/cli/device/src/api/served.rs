//! Which versions of `resource.k8s.io` a server has, and which of them to use.

use lazaret_runtime::{CLAIMS, CLASSES, PATCHES, RULES, Resource, SLICES};
use serde_json::Value;

use super::call::Api;
use crate::Error;

const GROUP: &str = "resource.k8s.io";
/// The best first.
const VERSIONS: [&str; 4] = ["v1", "v1beta2", "v1beta1", "v1alpha3"];
/// The version in which Lazaret shows rules by class, expression and pace.
const SUPERSET: &str = "v1alpha3";

/// The version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The version that the server reports, and the release that it emulates where that is another: `v1.37.0`, `v1.37.0 as 1.36`.
    pub(crate) text: String,
    /// The minor release as which it behaves.
    pub(crate) minor: u32,
}

impl Version {
    pub(crate) fn of(version: &Value) -> Self {
        let git = version["gitVersion"].as_str().unwrap_or("an unknown version");
        // Some distributions write `36+`.
        let number = |field: &str| version[field].as_str()?.trim_end_matches('+').parse::<u32>().ok();
        let minor = number("minor").unwrap_or(u32::MAX);
        match number("emulationMinor").filter(|emulated| *emulated != minor) {
            Some(emulated) => Self { text: format!("{git} as 1.{emulated}"), minor: emulated },
            None => Self { text: git.to_owned(), minor },
        }
    }
}

/// Where each kind is to be read and written.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// The version of the server.
    pub(crate) version: Version,
    /// Every version of the group, as the server lists them.
    pub(crate) versions: Vec<String>,
    pub(crate) slices: Resource,
    pub(crate) claims: Resource,
    pub(crate) classes: Resource,
    /// Absent before Kubernetes 1.33, and where the gate is off.
    pub(crate) rules: Option<Resource>,
    /// Lazaret alone has them; where they are, rules know classes, expressions and a pace.
    pub(crate) patches: Option<Resource>,
}

impl Served {
    /// Asks the server.
    pub(crate) async fn discover(api: &Api) -> Result<Self, Error> {
        let version = api.version().await?;
        let group = match api.get_path(&format!("/apis/{GROUP}"), "read the API group resource.k8s.io").await
        {
            Ok(group) => group,
            Err(Error::NotFound { .. }) => return Err(Error::NoDra { version: version.text }),
            Err(error) => return Err(error),
        };
        let listed = group["versions"].as_array().into_iter().flatten();
        let versions: Vec<String> =
            listed.filter_map(|entry| Some(entry["version"].as_str()?.to_owned())).collect();
        let mut tables = Vec::new();
        for known in VERSIONS.into_iter().filter(|known| versions.iter().any(|version| version == known)) {
            let path = format!("/apis/{GROUP}/{known}");
            tables.push((known, api.get_path(&path, "read what resource.k8s.io serves").await?));
        }
        let patches = find(&tables, PATCHES, None);
        let widest = patches.map(|_| SUPERSET);
        let slices = find(&tables, SLICES, widest);
        let claims = find(&tables, CLAIMS, None);
        let classes = find(&tables, CLASSES, None);
        let rules = find(&tables, RULES, widest);
        match (slices, claims, classes) {
            (Some(slices), Some(claims), Some(classes)) => {
                Ok(Self { version, versions, slices, claims, classes, rules, patches })
            }
            _ => Err(Error::NoDra { version: version.text }),
        }
    }

    /// Rules, or what is missing to have them.
    pub(crate) fn rules(&self) -> Result<Resource, Error> {
        self.rules.ok_or_else(|| Error::NoRules { version: self.version.text.clone() })
    }

    /// Whether a rule can say how many pods leave a second.
    pub(crate) fn has_pace(&self) -> bool {
        self.patches.is_some() && self.rules.is_some_and(|rules| rules.version == SUPERSET)
    }
}

/// The resource in the version to use: the `first` where it is served, or else the best.
fn find(tables: &[(&'static str, Value)], of: Resource, first: Option<&str>) -> Option<Resource> {
    let has = |table: &Value| {
        table["resources"].as_array().into_iter().flatten().any(|entry| entry["name"] == of.plural)
    };
    let serving = || tables.iter().filter(|(_, table)| has(table)).map(|(version, _)| *version);
    let version = serving().find(|version| Some(*version) == first).or_else(|| serving().next())?;
    Some(Resource { version, ..of })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_what_it_emulates() {
        let of = |version: Value| {
            let version = Version::of(&version);
            (version.text, version.minor)
        };
        let plain = json!({"gitVersion": "v1.34.2-vendor", "major": "1", "minor": "34+"});
        assert_eq!(of(plain), ("v1.34.2-vendor".to_owned(), 34));
        let same =
            json!({"gitVersion": "v1.37.0", "minor": "37", "emulationMajor": "1", "emulationMinor": "37"});
        assert_eq!(of(same), ("v1.37.0".to_owned(), 37));
        let older =
            json!({"gitVersion": "v1.37.0", "minor": "37", "emulationMajor": "1", "emulationMinor": "36"});
        assert_eq!(of(older), ("v1.37.0 as 1.36".to_owned(), 36));
        assert_eq!(of(json!({})), ("an unknown version".to_owned(), u32::MAX));
    }
}
