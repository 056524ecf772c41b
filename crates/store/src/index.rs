//! The ordered index of all items: a sorted array of sorted leaves, copied on write.
//!
//! A clone costs one reference count, so a reader, a snapshot to disk and the writer's draft of the next commit
//! each hold a version of their own and never wait for each other. The first change after a clone copies the
//! root (one pointer per leaf: about 1,200 at 150,000 items) and the touched leaves, nothing else. Positions make
//! counting a prefix a matter of adding leaf lengths.

use std::sync::Arc;

use crate::item::Item;

/// Small enough that copying a leaf (256 reference counts) costs about a microsecond, large enough that the
/// root of a million items stays under 8,000 pointers.
const LEAF_ITEMS_MAX: usize = 256;

/// Leaves are merged with a neighbour when both together fit in this, so that deletes cannot leave a trail of
/// tiny leaves, and a merge is not followed by a split.
const MERGE_ITEMS_MAX: usize = LEAF_ITEMS_MAX / 2;

type Leaf = Vec<Arc<Item>>;

/// Invariant: no leaf is empty; keys ascend strictly within and across leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    leaves: Arc<Vec<Arc<Leaf>>>,
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
        let leaf = self.leaves.get(self.leaf_of(key))?;
        let slot = leaf.binary_search_by(|item| (*item.key).cmp(key)).ok()?;
        leaf.get(slot)
    }

    /// Puts an item in its place and returns the one that was there.
    pub(crate) fn insert(&mut self, item: Arc<Item>) -> Option<Arc<Item>> {
        self.bytes += item.weight();
        let at = self.leaf_of(&item.key);
        let leaves = Arc::make_mut(&mut self.leaves);
        let last_leaf = at + 1 == leaves.len();
        let Some(leaf) = leaves.get_mut(at) else {
            leaves.push(Arc::new(vec![item]));
            self.len += 1;
            return None;
        };
        let leaf = Arc::make_mut(leaf);
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
                    leaves.insert(at + 1, Arc::new(tail));
                }
                None
            }
        }
    }

    /// Takes an item out and returns it.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Item>> {
        let at = self.leaf_of(key);
        let slot = self.leaves.get(at)?.binary_search_by(|item| (*item.key).cmp(key)).ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[at]);
        let old = leaf.remove(slot);
        self.len -= 1;
        self.bytes -= old.weight();
        if leaf.is_empty() {
            leaves.remove(at);
        } else {
            merge_if_small(leaves, at);
            merge_if_small(leaves, at.saturating_sub(1));
        }
        Some(old)
    }

    /// The place before the first key that is not less than `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> Position {
        let leaf = self.leaf_of(key);
        let slot = self.leaves.get(leaf).map_or(0, |items| items.partition_point(|item| *item.key < *key));
        self.normal(leaf, slot)
    }

    /// The place before the first key that is greater than `key`.
    pub(crate) fn seek_after(&self, key: &[u8]) -> Position {
        let leaf = self.leaf_of(key);
        let slot = self.leaves.get(leaf).map_or(0, |items| items.partition_point(|item| *item.key <= *key));
        self.normal(leaf, slot)
    }

    /// The place after all keys that start with `prefix`.
    pub(crate) fn seek_prefix_end(&self, prefix: &[u8]) -> Position {
        match prefix_successor(prefix) {
            Some(next) => self.seek(&next),
            None => Position { leaf: self.leaves.len(), slot: 0 },
        }
    }

    /// How many items lie between two places.
    pub(crate) fn count(&self, from: Position, to: Position) -> usize {
        if from >= to {
            return 0;
        }
        let between = self.leaves[from.leaf..to.leaf].iter().map(|leaf| leaf.len()).sum::<usize>();
        between + to.slot - from.slot
    }

    /// The items between two places, ascending.
    pub(crate) fn iter(&self, from: Position, to: Position) -> impl Iterator<Item = &Arc<Item>> {
        let last = (to.leaf + 1).min(self.leaves.len());
        let first = from.leaf.min(last);
        self.leaves[first..last].iter().enumerate().flat_map(move |(nth, leaf)| {
            let start = if nth == 0 { from.slot } else { 0 };
            let end = if first + nth == to.leaf { to.slot } else { leaf.len() };
            leaf[start.min(end)..end].iter()
        })
    }

    /// Every item, ascending.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// The leaf that holds `key` if any does.
    fn leaf_of(&self, key: &[u8]) -> usize {
        self.leaves.partition_point(|leaf| *leaf[0].key <= *key).saturating_sub(1)
    }

    /// Gives each place one name: the end of a leaf is the beginning of the next.
    fn normal(&self, leaf: usize, slot: usize) -> Position {
        match self.leaves.get(leaf) {
            Some(items) if slot >= items.len() => Position { leaf: leaf + 1, slot: 0 },
            _ => Position { leaf, slot },
        }
    }
}

fn merge_if_small(leaves: &mut Vec<Arc<Leaf>>, left: usize) {
    let Some(right) = leaves.get(left + 1) else { return };
    if leaves[left].len() + right.len() <= MERGE_ITEMS_MAX {
        let right = leaves.remove(left + 1);
        Arc::make_mut(&mut leaves[left]).extend(right.iter().cloned());
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
    use crate::item::Key;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn item(key: &[u8], modified: u64) -> Arc<Item> {
        Arc::new(Item { key: Key::from(key), value: Bytes::from_static(b"v"), created: modified, modified })
    }

    fn check_shape(index: &Index) {
        assert!(index.leaves.iter().all(|leaf| !leaf.is_empty() && leaf.len() <= LEAF_ITEMS_MAX));
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
        assert_eq!(index.leaves.len(), 10_000_usize.div_ceil(LEAF_ITEMS_MAX));
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
        assert!(index.leaves.len() <= 4, "{} leaves for {} items", index.leaves.len(), index.len());
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
