//! From a device or a slice to the rules (or patches) that might mean it, without looking at all of them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use lazaret_model::{DeviceSelector, PoolId, Text};

use crate::body::SliceBody;

/// Numbers of selectors, filed by driver, pool and device, each of which may be left open.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    drawers: BTreeMap<(Option<Text>, Option<Text>), Drawer>,
    by_class: BTreeMap<Text, BTreeSet<u32>>,
}

#[derive(Clone, Debug, Default)]
struct Drawer {
    any_device: BTreeSet<u32>,
    by_device: BTreeMap<Text, BTreeSet<u32>>,
}

impl SelectorIndex {
    /// Whether no selector is filed.
    pub(crate) fn is_empty(&self) -> bool {
        self.drawers.is_empty()
    }

    /// Files a selector. None means nothing and is not filed.
    /// DEVIATION(absent-selector).
    pub(crate) fn insert(&mut self, number: u32, selector: Option<&DeviceSelector>) {
        let Some(selector) = selector else { return };
        let drawer = self.drawers.entry((selector.driver.clone(), selector.pool.clone())).or_default();
        match &selector.device {
            None => drawer.any_device.insert(number),
            Some(device) => drawer.by_device.entry(device.clone()).or_default().insert(number),
        };
        if let Some(class) = &selector.class {
            self.by_class.entry(class.clone()).or_default().insert(number);
        }
    }

    pub(crate) fn remove(&mut self, number: u32, selector: Option<&DeviceSelector>) {
        let Some(selector) = selector else { return };
        let key = (selector.driver.clone(), selector.pool.clone());
        if let Some(drawer) = self.drawers.get_mut(&key) {
            match &selector.device {
                None => {
                    drawer.any_device.remove(&number);
                }
                Some(device) => remove_from(&mut drawer.by_device, device, number),
            }
            if drawer.any_device.is_empty() && drawer.by_device.is_empty() {
                self.drawers.remove(&key);
            }
        }
        if let Some(class) = &selector.class {
            remove_from(&mut self.by_class, class, number);
        }
    }

    /// Those that ask for this class.
    pub(crate) fn of_class(&self, class: &Text) -> Vec<u32> {
        self.by_class.get(class).into_iter().flatten().copied().collect()
    }

    /// Those that might mean a device of the slice, in ascending order.
    pub(crate) fn candidates(&self, pool: &PoolId, body: &SliceBody) -> Vec<u32> {
        let mut found = Vec::new();
        for drawer in self.drawers_of(pool) {
            found.extend(&drawer.any_device);
            if drawer.by_device.len() <= body.len() {
                let named = drawer.by_device.iter().filter(|(device, _)| body.names.contains(device));
                found.extend(named.flat_map(|(_, numbers)| numbers));
            } else {
                found.extend(body.names.iter().filter_map(|name| drawer.by_device.get(name)).flatten());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Those that might mean a device of this name, in ascending order.
    pub(crate) fn candidates_by_name(&self, pool: &PoolId, device: &Text) -> Vec<u32> {
        let mut found = Vec::new();
        for drawer in self.drawers_of(pool) {
            found.extend(&drawer.any_device);
            found.extend(drawer.by_device.get(device).into_iter().flatten());
        }
        found.sort_unstable();
        found
    }

    fn drawers_of(&self, pool: &PoolId) -> impl Iterator<Item = &Drawer> {
        let keys = [
            (None, None),
            (None, Some(pool.pool.clone())),
            (Some(pool.driver.clone()), None),
            (Some(pool.driver.clone()), Some(pool.pool.clone())),
        ];
        keys.into_iter()
            .take(if self.drawers.is_empty() { 0 } else { 4 })
            .filter_map(|key| self.drawers.get(&key))
    }
}

fn remove_from(map: &mut BTreeMap<Text, BTreeSet<u32>>, key: &Text, number: u32) {
    if let Some(set) = map.get_mut(key) {
        set.remove(&number);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
