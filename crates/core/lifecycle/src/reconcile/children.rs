//! The objects that were made for incidents.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::Text;

use super::{Child, ChildKind};

/// Which object: its kind, its namespace and its name.
pub(super) type Place = (ChildKind, Text, Text);

/// Objects by the incidents that they were made for. Names of most follow from the incident: who owns them need not be kept.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// In order of kind, namespace and name.
    by_incident: BTreeMap<Text, Vec<Child>>,
    /// The incidents of objects whose names say nothing of them.
    strays: BTreeMap<Place, Text>,
}

impl Children {
    /// Those of an incident.
    pub(super) fn of(&self, incident: &str) -> &[Child] {
        self.by_incident.get(incident).map_or(&[], Vec::as_slice)
    }

    /// Incidents that have some.
    pub(super) fn incidents(&self) -> impl Iterator<Item = &Text> {
        self.by_incident.keys()
    }

    /// Takes in an object that is not known.
    pub(super) fn insert(&mut self, child: Child) {
        let incident = child.owner.name.clone();
        if !candidates(&child.name).any(|name| *name == *incident) {
            self.strays.insert(place(&child), incident.clone());
        }
        let children = self.by_incident.entry(incident).or_default();
        let at = children.partition_point(|other| is_before(other, &child));
        children.reserve_exact(1);
        children.insert(at, child);
    }

    /// An object is not there any more.
    pub(super) fn remove(&mut self, gone: &Place) -> Option<Child> {
        let stray = self.strays.remove(gone);
        let owner = stray.or_else(|| {
            let has_it = |name: &&str| self.of(name).iter().any(|child| is_at(child, gone));
            candidates(&gone.2).find(has_it).map(Text::from)
        })?;
        let children = self.by_incident.get_mut(&owner)?;
        let at = children.iter().position(|child| is_at(child, gone))?;
        let child = children.remove(at);
        if children.is_empty() {
            self.by_incident.remove(&owner);
        }
        Some(child)
    }
}

/// Incidents that an object of this name may be of: its own name, or that without the number of a task.
fn candidates(name: &str) -> impl Iterator<Item = &str> {
    [Some(name), name.rsplit_once('-').map(|(owner, _)| owner)].into_iter().flatten()
}

fn place(child: &Child) -> Place {
    (child.target.kind(), child.namespace.clone(), child.name.clone())
}

fn is_at(child: &Child, (kind, namespace, name): &Place) -> bool {
    child.target.kind() == *kind && child.namespace == *namespace && child.name == *name
}

fn is_before(one: &Child, other: &Child) -> bool {
    (one.target.kind(), &one.namespace, &one.name) < (other.target.kind(), &other.namespace, &other.name)
}
