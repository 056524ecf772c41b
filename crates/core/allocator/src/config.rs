//! The configuration that goes with an allocation.

use alloc::{format, vec, vec::Vec};

use lazaret_model::{ClaimSpec, ConfigSource, DeviceClass, ResultConfig, Text};

/// The choice made for one request of a claim.
pub(crate) struct Chosen<'a> {
    pub(crate) request: &'a Text,
    /// The alternative, if it is a list of alternatives.
    pub(crate) alternative: Option<&'a Text>,
    pub(crate) class: &'a DeviceClass,
}

impl Chosen<'_> {
    /// `r` or `r/s`.
    pub(crate) fn path(&self) -> Text {
        match self.alternative {
            None => self.request.clone(),
            Some(alternative) => format!("{}/{alternative}", self.request).into(),
        }
    }

    fn is_named_in(&self, names: &[Text]) -> bool {
        names.contains(self.request)
            || self.alternative.is_some_and(|alternative| {
                let is_path = |name: &Text| {
                    name.strip_prefix(&**self.request).and_then(|rest| rest.strip_prefix('/'))
                        == Some(&**alternative)
                };
                names.iter().any(is_path)
            })
    }
}

/// Class configuration first, each class once, with the requests that use it; then the claim's, unless it is only
/// for alternatives that were not chosen. A configuration for every request names none.
pub(crate) fn collect(spec: &ClaimSpec, chosen: &[Chosen<'_>]) -> Vec<ResultConfig> {
    let mut entries: Vec<ResultConfig> = Vec::new();
    let mut classes: Vec<(&Text, core::ops::Range<usize>)> = Vec::new();
    for choice in chosen {
        if let Some((_, range)) = classes.iter().find(|(class, _)| *class == &choice.class.name) {
            entries[range.clone()].iter_mut().for_each(|entry| entry.requests.push(choice.path()));
            continue;
        }
        let start = entries.len();
        entries.extend(choice.class.config.iter().map(|opaque| ResultConfig {
            source: ConfigSource::Class,
            requests: vec![choice.path()],
            opaque: opaque.clone(),
        }));
        classes.push((&choice.class.name, start..entries.len()));
    }
    let applies = |names: &[Text]| names.is_empty() || chosen.iter().any(|choice| choice.is_named_in(names));
    entries.extend(spec.config.iter().filter(|config| applies(&config.requests)).map(|config| {
        ResultConfig {
            source: ConfigSource::Claim,
            requests: config.requests.clone(),
            opaque: config.opaque.clone(),
        }
    }));
    for entry in &mut entries {
        if chosen.iter().all(|choice| choice.is_named_in(&entry.requests)) {
            entry.requests.clear();
        }
    }
    entries
}
