//! Which devices of a driver are tainted, for the driver that allocates them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use lazaret_model::{DeviceId, DeviceSelector, DeviceTaintRule, Effect, Text};
use lazaret_runtime::{Model, News, Object, RULES};
use tracing::warn;

/// Devices that no further claim should be given: those that a DeviceTaintRule with the effect NoSchedule or NoExecute selects by their names. Rules by
/// class or expression select no device of a classic driver, which publishes no slices. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct TaintedDevices(Arc<RwLock<Selectors>>);

/// By the names of the rules.
type Selectors = BTreeMap<Text, DeviceSelector>;

impl TaintedDevices {
    /// Whether a device is tainted. Before the rules were read for the first time, none is.
    #[must_use]
    pub fn contains(&self, driver: &str, pool: &str, device: &str) -> bool {
        let device = DeviceId { driver: driver.into(), pool: pool.into(), device: device.into() };
        let selectors = self.0.read().unwrap_or_else(PoisonError::into_inner);
        selectors.values().any(|selector| selector.names_match(&device))
    }

    /// Takes note of rules. `false`: the news are of something else.
    pub(super) fn apply(&self, news: &News) -> bool {
        if news.resource() != RULES {
            return false;
        }
        let mut selectors = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match news {
            News::Barred(_, why) => warn!(%why, "taint rules cannot be read: tainted devices are allocated"),
            News::Set(_, object) => set(&mut selectors, object),
            News::Gone(_, object) => drop(selectors.remove(&object.key.name)),
            News::Listed(_, objects, _) => {
                let names: BTreeSet<&Text> = objects.iter().map(|object| &object.key.name).collect();
                selectors.retain(|name, _| names.contains(name));
                objects.iter().for_each(|object| set(&mut selectors, object));
            }
        }
        true
    }
}

fn set(selectors: &mut Selectors, object: &Object) {
    // A rule of which nothing can be read stays as it was known.
    let Ok(Model::Rule(rule)) = object.model() else { return };
    let selector = tainting(rule).cloned();
    match selector {
        Some(selector) => drop(selectors.insert(object.key.name.clone(), selector)),
        None => drop(selectors.remove(&object.key.name)),
    }
}

fn tainting(rule: &DeviceTaintRule) -> Option<&DeviceSelector> {
    let keeps_claims_away = matches!(rule.taint.effect, Effect::NoSchedule | Effect::NoExecute);
    rule.active_selector().filter(|selector| keeps_claims_away && selector.by_names_only())
}
