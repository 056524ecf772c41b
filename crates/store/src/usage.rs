//! How much a store holds, known without looking.

use std::collections::HashMap;
use std::sync::Mutex;

use lazaret_storage::{Event, EventKind};

use crate::index::Index;
use crate::shared::lock;

/// How many keys there are in each directory: up to the last slash of a key, and up to the one before it. Directories are as many as kinds
/// and namespaces with objects; one without keys is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    counts: Mutex<HashMap<Box<[u8]>, usize>>,
}

impl Directories {
    pub(crate) fn of(index: &Index) -> Directories {
        let directories = Directories::default();
        index.all().for_each(|item| directories.add(&item.key));
        directories
    }

    pub(crate) fn count(&self, directory: &[u8]) -> usize {
        lock(&self.counts).get(directory).copied().unwrap_or_default()
    }

    /// Learns of a change.
    pub(crate) fn note(&self, event: &Event) {
        match event.kind() {
            EventKind::Created => self.add(&event.key),
            EventKind::Deleted if event.old.is_some() => self.remove(&event.key),
            EventKind::Deleted | EventKind::Updated => {}
        }
    }

    fn add(&self, key: &[u8]) {
        let mut counts = lock(&self.counts);
        for directory in above(key) {
            match counts.get_mut(directory) {
                Some(count) => *count += 1,
                None => drop(counts.insert(directory.into(), 1)),
            }
        }
    }

    fn remove(&self, key: &[u8]) {
        let mut counts = lock(&self.counts);
        for directory in above(key) {
            let Some(count) = counts.get_mut(directory) else { continue };
            *count -= 1;
            if *count == 0 {
                counts.remove(directory);
            }
        }
    }
}

/// The directory of a key, and the one that is in.
fn above(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parent = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
    let directory = parent(key).map(|end| &key[..end]);
    let outer = directory.and_then(|path| parent(&path[..path.len() - 1])).map(|end| &key[..end]);
    directory.into_iter().chain(outer)
}

#[cfg(test)]
mod tests {
    use crate::{Op, Options, Store, Totals};

    #[test]
    fn keys_are_counted_in_their_directories_through_changes_and_restarts() {
        let folder = std::env::temp_dir().join(format!("lazaret-usage-{}", std::process::id()));
        let open = || Store::open(&folder, Options::default()).unwrap();
        let store = open();
        for key in ["/core/pods/a/x", "/core/pods/a/y", "/core/pods/b/x", "/core/nodes/n"] {
            store.txn_blocking(vec![Op::create(key, "1")]).unwrap();
        }
        store.txn_blocking(vec![Op::put("/core/pods/a/x", "22")]).unwrap();
        store
            .txn_blocking(vec![Op::delete_any("/core/pods/a/y"), Op::delete_any("/core/pods/a/none")])
            .unwrap();
        let counts = |store: &Store| {
            ["/core/pods/a/", "/core/pods/b/", "/core/pods/", "/core/nodes/", "/core/none/"]
                .map(|directory| store.count_in(directory))
        };
        assert_eq!(counts(&store), [1, 1, 2, 1, 0]);
        assert_eq!(store.totals().items, 3);
        let bytes = store.totals().bytes;
        store.close();
        drop(store);
        let store = open();
        assert_eq!(counts(&store), [1, 1, 2, 1, 0], "as after a restart");
        assert_eq!(store.totals(), Totals { items: 3, bytes });
        store.close();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
