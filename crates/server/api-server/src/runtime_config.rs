//! `--runtime-config`: which group versions are served, in Kubernetes' words and order of precedence.

use std::collections::BTreeSet;

use lazaret_kinds::{Kind, Served};

/// Names for many versions, the weakest first; a version by its name is stronger than all, a resource of it strongest.
const STAGES: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];
/// After the stages: `apps/v1`, then `apps/v1/deployments`.
const RANK_VERSION: usize = STAGES.len();
const RANK_RESOURCE: usize = STAGES.len() + 1;

/// Reads `VERSION=BOOL,…`; what is not followed by `=` is turned on.
///
/// # Errors
/// A sentence: a value that is neither true nor false, or a name that stands for nothing, with the names that do.
pub fn parse_runtime_config(text: &str) -> Result<Vec<(String, bool)>, String> {
    let mut list = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        if !is_known(name) {
            return Err(format!("unknown group version {name:?}: known are {}", known().join(", ")));
        }
        match value {
            "true" => list.push((name.to_owned(), true)),
            "false" => list.push((name.to_owned(), false)),
            other => return Err(format!("{name}: {other:?} is neither true nor false")),
        }
    }
    if list.iter().all(|(name, on)| name == STAGES[0] && !on) && !list.is_empty() {
        return Err(format!("{}=false alone leaves nothing to serve", STAGES[0]));
    }
    Ok(list)
}

/// Every name that means something, stages first, then the group versions that have kinds.
fn known() -> Vec<String> {
    let versions: BTreeSet<String> = versions().map(|(_, version)| version).collect();
    STAGES.iter().map(ToString::to_string).chain(versions).collect()
}

fn is_known(name: &str) -> bool {
    STAGES.contains(&name)
        || versions().any(|(kind, version)| {
            name.strip_prefix(version.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/') == Some(&*kind.plural))
        })
}

fn versions() -> impl Iterator<Item = (&'static Kind, String)> {
    lazaret_kinds::all()
        .iter()
        .flat_map(|kind| kind.versions.iter().map(move |served| (kind, kind.api_version(&served.version))))
}

/// Whether a version of a kind is served by this configuration. Of several entries that mean it the strongest counts, whatever their order.
pub(crate) fn is_on(config: &[(String, bool)], kind: &Kind, served: &Served) -> bool {
    if config.is_empty() {
        return served.by_default;
    }
    let version = kind.api_version(&served.version);
    let entries = config.iter().filter_map(|(name, on)| Some((rank(name, kind, served, &version)?, *on)));
    entries.max_by_key(|(rank, _)| *rank).map_or(served.by_default, |(_, on)| on)
}

/// How strong an entry is for a version of a kind; `None` where it does not mean it.
fn rank(name: &str, kind: &Kind, served: &Served, version: &str) -> Option<usize> {
    if let Some(rest) = name.strip_prefix(version) {
        return match rest.strip_prefix('/') {
            None if rest.is_empty() => Some(RANK_VERSION),
            Some(plural) if plural == kind.plural => Some(RANK_RESOURCE),
            Some(_) | None => None,
        };
    }
    let (alpha, beta) = (served.version.contains("alpha"), served.version.contains("beta"));
    let means = [true, !alpha && !beta, beta, alpha];
    STAGES.iter().zip(means).position(|(stage, means)| *stage == name && means)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(config: &str, group: &str, plural: &str, version: &str) -> bool {
        let kind = lazaret_kinds::find(group, plural).unwrap();
        let served = kind.versions.iter().find(|served| served.version == version).unwrap();
        is_on(&parse_runtime_config(config).unwrap(), kind, served)
    }

    #[test]
    fn what_is_named_more_closely_counts_in_any_order() {
        let rows = [
            ("", "v1", true),
            ("", "v1alpha3", false),
            ("api/all", "v1alpha3", true),
            ("api/alpha=true", "v1alpha3", true),
            ("api/beta=true", "v1alpha3", false),
            ("api/beta=true", "v1beta2", true),
            ("api/ga=false,api/beta=true", "v1", false),
            ("api/ga=false,api/beta=true", "v1beta2", true),
            ("api/alpha=true,api/all=false", "v1alpha3", true),
            ("resource.k8s.io/v1=true,api/all=false", "v1", true),
            ("resource.k8s.io/v1alpha3=true,api/alpha=false", "v1alpha3", true),
            ("resource.k8s.io/v1alpha3/devicetaintrules=true", "v1alpha3", true),
            ("resource.k8s.io/v1alpha3/resourceslices=true", "v1alpha3", false),
            (
                "resource.k8s.io/v1alpha3/devicetaintrules=false,resource.k8s.io/v1alpha3=true",
                "v1alpha3",
                false,
            ),
        ];
        for (config, version, wanted) in rows {
            assert_eq!(
                served(config, "resource.k8s.io", "devicetaintrules", version),
                wanted,
                "{config} {version}"
            );
        }
        assert!(!served("v1=false,apps/v1=true", "", "pods", "v1"));
    }

    #[test]
    fn names_that_mean_nothing_are_refused_with_those_that_do() {
        for name in [
            "resource.k8s.io/v2",
            "resource.k8s.io",
            "resource.k8s.io/v1alpha1=true",
            "nope/v1=true",
            "api/gamma=true",
        ] {
            let refused = parse_runtime_config(name).unwrap_err();
            let name = name.split('=').next().unwrap();
            assert!(
                refused.starts_with(&format!("unknown group version {name:?}: known are api/all, api/ga,")),
                "{refused}"
            );
            assert!(refused.contains(", resource.k8s.io/v1alpha3"), "{refused}");
        }
        assert!(parse_runtime_config("resource.k8s.io/v1/nopes=true").is_err());
        assert_eq!(
            parse_runtime_config("apps/v1=yes").unwrap_err(),
            "apps/v1: \"yes\" is neither true nor false"
        );
        assert!(parse_runtime_config("api/all=false").unwrap_err().contains("nothing to serve"));
        assert_eq!(parse_runtime_config(" , ").unwrap(), []);
    }
}
