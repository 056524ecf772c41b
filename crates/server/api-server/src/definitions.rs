//! Kinds that definitions in the store bring.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_kinds::{Kind, Name, custom_kinds};
use lazaret_storage::{Item, Storage};

use crate::{derived::Derived, kind_ref::KindRef, object, request::Target};

/// Where definitions are stored.
pub(crate) const PREFIX: &str = "/apiextensions.k8s.io/customresourcedefinitions/";
/// All kinds that definitions bring, as the store has them now.
#[derive(Debug)]
pub(crate) struct Definitions {
    kinds: Derived<Customs>,
}

/// Kinds by `group/version/plural`.
#[derive(Debug, Default)]
pub(crate) struct Customs {
    by_path: BTreeMap<String, Arc<Kind>>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { kinds: Derived::new(PREFIX, Customs::new) }
    }
}

impl Definitions {
    pub(crate) fn get(&self, store: &dyn Storage) -> Arc<Customs> {
        self.kinds.get(store)
    }
}

impl Customs {
    fn new(items: &[Arc<Item>]) -> Self {
        let mut by_path = BTreeMap::new();
        for kind in items.iter().flat_map(|item| custom_kinds(&object::decode(&item.value))) {
            by_path.insert(path(&kind.group, &kind.hub().version, &kind.plural), Arc::new(kind));
        }
        Self { by_path }
    }

    pub(crate) fn find(&self, target: &Target) -> Option<KindRef> {
        let path = path(&target.group, &target.version, &target.plural);
        self.by_path.get(&path).map(|kind| KindRef::Custom(kind.clone()))
    }

    /// All versions in which a kind is served.
    pub(crate) fn versions(&self, kind: &Kind) -> Vec<Name> {
        let same = |other: &&Arc<Kind>| other.group == kind.group && other.plural == kind.plural;
        self.by_path.values().filter(same).map(|other| other.hub().version.clone()).collect()
    }

    /// Whether a definition brings this kind.
    pub(crate) fn have(&self, group: &str, plural: &str) -> bool {
        self.by_path.values().any(|kind| kind.group == group && kind.plural == plural)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = KindRef> {
        self.by_path.values().map(|kind| KindRef::Custom(kind.clone()))
    }
}

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}
