//! How much a store holds, known without looking.

use std::collections::HashMap;

use lazaret_storage::{Event, EventKind};

use crate::index::Index;
use crate::shared::lock;
use crate::sync::Mutex;

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
