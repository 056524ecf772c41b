//! Objects that a core made for another one that cannot be read, and of which no good version is known: they stay as they are, and the core
//! does not know of them.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_model::Text;

/// Objects of type `T`, each with the name of its owner.
#[derive(Debug)]
pub(crate) struct Frozen<T> {
    /// Owners that cannot be read.
    owners: BTreeSet<Text>,
    owned: BTreeMap<Text, (Text, T)>,
}

impl<T> Default for Frozen<T> {
    fn default() -> Self {
        Self { owners: BTreeSet::new(), owned: BTreeMap::new() }
    }
}

impl<T: Clone> Frozen<T> {
    /// An object is so. Gives the object to pass on to the core; `None`: to the core there is none.
    pub(crate) fn set(&mut self, name: Text, owner: Text, object: T) -> Option<T> {
        let told = (!self.owners.contains(&owner)).then(|| object.clone());
        self.owned.insert(name, (owner, object));
        told
    }

    /// There is no such object.
    pub(crate) fn gone(&mut self, name: &Text) {
        self.owned.remove(name);
    }

    /// An owner cannot be read; or it can, or is gone. Gives the objects that it owns by their names, as they are to the core from now on.
    pub(crate) fn freeze(&mut self, owner: &Text, freeze: bool) -> Vec<(Text, Option<T>)> {
        let is_new = if freeze { self.owners.insert(owner.clone()) } else { self.owners.remove(owner) };
        if !is_new {
            return Vec::new();
        }
        let owned = self.owned.iter().filter(|(_, (of, _))| of == owner);
        owned.map(|(name, (_, object))| (name.clone(), (!freeze).then(|| object.clone()))).collect()
    }

    /// The owners that cannot be read.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Text> {
        self.owners.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_unreadable_owner_has_is_not_known_until_the_owner_can_be_read() {
        let mut frozen = Frozen::default();
        assert_eq!(frozen.set("r".into(), "p".into(), 1), Some(1));
        assert_eq!(frozen.freeze(&"p".into(), true), [("r".into(), None)]);
        assert_eq!(frozen.freeze(&"p".into(), true), []);
        assert_eq!(frozen.set("r".into(), "p".into(), 2), None);
        assert_eq!(frozen.set("s".into(), "q".into(), 3), Some(3));
        assert_eq!(frozen.freeze(&"p".into(), false), [("r".into(), Some(2))]);
        frozen.gone(&"r".into());
        assert_eq!(frozen.freeze(&"p".into(), true), []);
    }
}
