//! The ordered index of all items: a sorted array of sorted leaves, copied on write.
//!
//! A clone costs one reference count, so a list, a snapshot to disk and the writer each hold a version of their own
//! and never wait for each other. While there is no clone, changes are made in place; after a clone, the first
//! change copies the root and each first change of a leaf copies that leaf, nothing else. Positions make counting a
//! prefix a matter of adding leaf lengths.

use std::sync::Arc;

use lazaret_storage::{Item, Key};

/// Small enough that copying a leaf touches few items (each reference count is likely a cache miss), large enough
/// that the root of 150,000 items has some 3,000 entries.
const LEAF_ITEMS_MAX: usize = 64;

/// Leaves are merged with a neighbour when both together fit in this, so that deletes cannot leave a trail of
/// tiny leaves, and a merge is not followed by a split.
const MERGE_ITEMS_MAX: usize = LEAF_ITEMS_MAX / 2;

type Leaf = Vec<Arc<Item>>;

/// A leaf and the key that sends a search to it.
#[derive(Debug, Clone)]
struct Branch {
    /// Greater than all keys of the leaf before; not greater than the keys of this leaf, except in the first one,
    /// which also takes everything smaller.
    from: Key,
    leaf: Arc<Leaf>,
}

/// Invariant: no leaf is empty; keys ascend strictly within and across leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    root: Arc<Vec<Branch>>,
    len: usize,
    bytes: u64,
}

/// A place between two items of one version of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    leaf: usize,
    slot: usize,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The weight of all items, for deciding when a snapshot pays.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Item>> {
        let leaf = &self.root.get(self.leaf_of(key))?.leaf;
        let slot = leaf.binary_search_by(|item| (*item.key).cmp(key)).ok()?;
        leaf.get(slot)
    }

    /// Makes a key hold an item, or nothing.
    pub(crate) fn set(&mut self, key: &[u8], item: Option<Arc<Item>>) {
        match item {
            Some(item) => drop(self.insert(item)),
            None => drop(self.remove(key)),
        }
    }

    /// Puts an item in its place and returns the one that was there.
    pub(crate) fn insert(&mut self, item: Arc<Item>) -> Option<Arc<Item>> {
        self.bytes += item.weight();
        let at = self.leaf_of(&item.key);
        let root = Arc::make_mut(&mut self.root);
        let last_leaf = at + 1 == root.len();
        let Some(branch) = root.get_mut(at) else {
            root.push(Branch { from: item.key.clone(), leaf: Arc::new(vec![item]) });
            self.len += 1;
            return None;
        };
        let leaf = Arc::make_mut(&mut branch.leaf);
        match leaf.binary_search_by(|held| held.key.cmp(&item.key)) {
            Ok(slot) => {
                let old = std::mem::replace(&mut leaf[slot], item);
                self.bytes -= old.weight();
                Some(old)
            }
            Err(slot) => {
                leaf.insert(slot, item);
                self.len += 1;
                if leaf.len() > LEAF_ITEMS_MAX {
                    // Ascending loads (a snapshot, numbered names) leave full leaves behind, not half-full ones.
                    let ascending = last_leaf && slot + 1 == leaf.len();
                    let tail = leaf.split_off(if ascending { slot } else { LEAF_ITEMS_MAX / 2 });
                    root.insert(at + 1, Branch { from: tail[0].key.clone(), leaf: Arc::new(tail) });
                }
                None
            }
        }
    }

    /// Takes an item out and returns it.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Item>> {
        let at = self.leaf_of(key);
        let slot = self.root.get(at)?.leaf.binary_search_by(|item| (*item.key).cmp(key)).ok()?;
        let root = Arc::make_mut(&mut self.root);
        let leaf = Arc::make_mut(&mut root[at].leaf);
        let old = leaf.remove(slot);
        self.len -= 1;
        self.bytes -= old.weight();
        if leaf.is_empty() {
            root.remove(at);
        } else {
            merge_if_small(root, at);
            merge_if_small(root, at.saturating_sub(1));
        }
        Some(old)
    }

    /// The place before the first key that is not less than `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> Position {
        self.seek_by(key, |item| *item.key < *key)
    }

    /// The place before the first key that is greater than `key`.
    pub(crate) fn seek_after(&self, key: &[u8]) -> Position {
        self.seek_by(key, |item| *item.key <= *key)
    }

    /// The place after all keys that start with `prefix`.
    pub(crate) fn seek_prefix_end(&self, prefix: &[u8]) -> Position {
        match prefix_successor(prefix) {
            Some(next) => self.seek(&next),
            None => Position { leaf: self.root.len(), slot: 0 },
        }
    }

    /// How many items lie between two places.
    pub(crate) fn count(&self, from: Position, to: Position) -> usize {
        if from >= to {
            return 0;
        }
        let between = self.root[from.leaf..to.leaf].iter().map(|branch| branch.leaf.len()).sum::<usize>();
        between + to.slot - from.slot
    }

    /// The items between two places, ascending.
    pub(crate) fn iter(&self, from: Position, to: Position) -> impl Iterator<Item = &Arc<Item>> {
        let last = (to.leaf + 1).min(self.root.len());
        let first = from.leaf.min(last);
        self.root[first..last].iter().enumerate().flat_map(move |(nth, branch)| {
            let start = if nth == 0 { from.slot } else { 0 };
            let end = if first + nth == to.leaf { to.slot } else { branch.leaf.len() };
            branch.leaf[start.min(end)..end].iter()
        })
    }

    /// Every item, ascending.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.root.iter().flat_map(|branch| branch.leaf.iter())
    }

    /// The leaf that holds `key` if any does.
    fn leaf_of(&self, key: &[u8]) -> usize {
        self.root.partition_point(|branch| *branch.from <= *key).saturating_sub(1)
    }

    fn seek_by(&self, key: &[u8], before: impl Fn(&Arc<Item>) -> bool) -> Position {
        let leaf = self.leaf_of(key);
        let Some(branch) = self.root.get(leaf) else { return Position { leaf, slot: 0 } };
        let slot = branch.leaf.partition_point(before);
        // Each place has one name: the end of a leaf is the beginning of the next.
        if slot == branch.leaf.len() { Position { leaf: leaf + 1, slot: 0 } } else { Position { leaf, slot } }
    }
}

fn merge_if_small(root: &mut Vec<Branch>, left: usize) {
    let Some(right) = root.get(left + 1) else { return };
    if root[left].leaf.len() + right.leaf.len() <= MERGE_ITEMS_MAX {
        let right = root.remove(left + 1);
        Arc::make_mut(&mut root[left].leaf).extend(right.leaf.iter().cloned());
    }
}

/// The smallest key greater than every key with this prefix; `None` when there is no such key.
pub(crate) fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn item(key: &[u8], modified: u64) -> Arc<Item> {
        Arc::new(Item { key: Key::from(key), value: Bytes::from_static(b"v"), created: modified, modified })
    }

    fn check_shape(index: &Index) {
        assert!(
            index.root.iter().all(|branch| !branch.leaf.is_empty() && branch.leaf.len() <= LEAF_ITEMS_MAX)
        );
        assert!(index.root.iter().skip(1).all(|branch| branch.from <= branch.leaf[0].key));
        assert!(index.all().zip(index.all().skip(1)).all(|(a, b)| a.key < b.key));
        assert_eq!(index.all().count(), index.len());
        assert_eq!(index.all().map(|item| item.weight()).sum::<u64>(), index.bytes());
    }

    #[test]
    fn successors_of_prefixes() {
        assert_eq!(prefix_successor(b"/pods/").as_deref(), Some(&b"/pods0"[..]));
        assert_eq!(prefix_successor(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(prefix_successor(b"\xff"), None);
        assert_eq!(prefix_successor(b""), None);
    }

    #[test]
    fn ascending_loads_fill_their_leaves() {
        let mut index = Index::default();
        for n in 0..10_000_u32 {
            index.insert(item(&n.to_be_bytes(), 1));
        }
        assert_eq!(index.root.len(), 10_000_usize.div_ceil(LEAF_ITEMS_MAX));
        check_shape(&index);
    }

    #[test]
    fn deletes_leave_no_trail_of_small_leaves() {
        let mut index = Index::default();
        for n in 0..10_000_u32 {
            index.insert(item(&n.to_be_bytes(), 1));
        }
        for n in (0..10_000_u32).filter(|n| n % 64 != 0) {
            index.remove(&n.to_be_bytes());
        }
        check_shape(&index);
        assert!(index.root.len() <= 12, "{} leaves for {} items", index.root.len(), index.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a BTreeMap: same items, same ranges, same counts; a clone does not see later changes.
        #[test]
        fn behaves_like_a_btree_map(
            ops in prop::collection::vec((any::<bool>(), 0_u16..1200), 1..3000),
            probes in prop::collection::vec(prop::collection::vec(0_u8..6, 0..3), 8),
        ) {
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            let mut frozen = None;
            for (step, (put, key)) in ops.iter().enumerate() {
                let bytes = key.to_be_bytes();
                if *put || step % 3 == 0 {
                    let new = item(&bytes, step as u64);
                    prop_assert_eq!(index.insert(Arc::clone(&new)), model.insert(bytes.to_vec(), new));
                } else {
                    prop_assert_eq!(index.remove(&bytes), model.remove(&bytes[..]));
                }
                prop_assert_eq!(index.get(&bytes), model.get(&bytes[..]));
                if step == ops.len() / 2 {
                    frozen = Some((index.clone(), model.clone()));
                }
            }
            for (index, model) in [Some((index, model)), frozen].into_iter().flatten() {
                check_shape(&index);
                prop_assert!(index.all().eq(model.values()));
                for prefix in &probes {
                    let (from, to) = (index.seek(prefix), index.seek_prefix_end(prefix));
                    let expected: Vec<_> =
                        model.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, item)| item).collect();
                    prop_assert_eq!(index.count(from, to), expected.len());
                    prop_assert!(index.iter(from, to).eq(expected.iter().copied()));
                    let after = index.seek_after(prefix);
                    let expected = model.iter().filter(|(key, _)| key.as_slice() > prefix.as_slice()).count();
                    prop_assert_eq!(index.count(after, index.seek_prefix_end(b"")), expected);
                }
            }
        }
    }
}
