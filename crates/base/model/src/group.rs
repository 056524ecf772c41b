//! Groups of pods that are placed together and may have claims together.

use alloc::vec::Vec;

use crate::{ClaimSource, Consumer, ObjectKey, PodClaim, Text, Uid};

/// The API group of [`PodGroup`].
pub const POD_GROUP_API: &str = "scheduling.k8s.io";

/// A group of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodGroup {
    /// Where it is. Pods name it in `spec.schedulingGroup`.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Deletion was asked for.
    pub deleting: bool,
    /// The claims that its pods have together, by entry.
    pub claims: Vec<PodClaim>,
    /// The size of the gang: none of its pods is placed before this number of them exist.
    pub gang: Option<u32>,
}

impl PodGroup {
    /// The group's entry that an entry of one of its pods stands for: the same name, and the same claim or template.
    #[must_use]
    pub fn shared(&self, entry: &PodClaim) -> Option<&PodClaim> {
        self.claims.iter().find(|own| own.name == entry.name && is_same_source(&own.source, &entry.source))
    }

    /// The group as the user of a claim.
    #[must_use]
    pub fn consumer(&self) -> Consumer {
        Consumer {
            api_group: POD_GROUP_API.into(),
            resource: "podgroups".into(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl PodClaim {
    /// The name of the claim, as far as it is known.
    #[must_use]
    pub fn claim(&self) -> Option<&Text> {
        match &self.source {
            ClaimSource::Claim(name) | ClaimSource::Template { resolved: Some(Some(name)), .. } => Some(name),
            ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
        }
    }
}

fn is_same_source(one: &ClaimSource, other: &ClaimSource) -> bool {
    match (one, other) {
        (ClaimSource::Claim(one), ClaimSource::Claim(other)) => one == other,
        (ClaimSource::Template { template: one, .. }, ClaimSource::Template { template: other, .. }) => {
            one == other
        }
        (ClaimSource::Claim(_) | ClaimSource::Template { .. } | ClaimSource::Unknown, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn an_entry_is_shared_if_name_and_source_agree() {
        let entry = |name: &str, source: ClaimSource| PodClaim { name: name.into(), source };
        let made = |template: &str, claim: Option<&str>| ClaimSource::Template {
            template: template.into(),
            resolved: claim.map(|claim| Some(claim.into())),
        };
        let group = PodGroup {
            claims: vec![entry("a", ClaimSource::Claim("x".into())), entry("b", made("t", Some("g-b")))],
            ..PodGroup::default()
        };
        let shared = |entry: &PodClaim| group.shared(entry).and_then(PodClaim::claim).map(Text::as_str);
        assert_eq!(shared(&entry("a", ClaimSource::Claim("x".into()))), Some("x"));
        assert_eq!(shared(&entry("b", made("t", None))), Some("g-b"));
        for other in [
            entry("b", ClaimSource::Claim("x".into())),
            entry("a", ClaimSource::Claim("y".into())),
            entry("b", made("u", None)),
            entry("a", ClaimSource::Unknown),
        ] {
            assert_eq!(shared(&other), None, "{other:?}");
        }
    }
}
