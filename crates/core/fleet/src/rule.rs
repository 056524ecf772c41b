//! A taint rule in the fleet.

use alloc::{collections::BTreeMap, sync::Arc};

use lazaret_model::DeviceTaintRule;

use crate::{
    selector::{Compiled, Hits},
    source::Source,
};

/// A rule with the slices it hits.
#[derive(Clone, Debug)]
pub(crate) struct RuleState {
    pub(crate) rule: Arc<DeviceTaintRule>,
    pub(crate) compiled: Compiled,
    pub(crate) source: Arc<Source>,
    pub(crate) hits: BTreeMap<u32, Hits>,
}

impl RuleState {
    pub(crate) fn source_of(rule: &DeviceTaintRule) -> Arc<Source> {
        let by_attributes = rule.selector.as_ref().is_some_and(|selector| !selector.by_names_only());
        Arc::new(Source::Rule {
            name: rule.name.clone(),
            uid: rule.uid.clone(),
            taint: rule.taint.clone(),
            by_attributes,
        })
    }
}
