//! The priority of pods that name no class.

use std::sync::Arc;

use lazaret_storage::Item;

use crate::object;

/// Where classes of priority are stored.
pub(crate) const PRIORITY_CLASSES: &str = "/scheduling.k8s.io/priorityclasses/";

/// The class of pods that name none, if there is one.
pub(crate) type DefaultPriority = Option<String>;

/// Of several classes that say they are the default, the lowest counts.
pub(crate) fn find_default_priority(items: &[Arc<Item>]) -> DefaultPriority {
    let classes = items.iter().map(|item| object::decode(&item.value));
    let defaults = classes.filter(|class| class["globalDefault"] == true);
    let lowest = defaults.min_by_key(|class| class["value"].as_i64().unwrap_or_default());
    lowest.map(|class| object::meta(&class, "name").to_owned())
}
