//! An ordered map whose clones share what they have in common: a B+ tree of reference-counted nodes.
//!
//! Cloning costs one reference count; changing a clone copies the path from the root to the changed leaf and
//! nothing else. So a snapshot costs nothing to take and a change after it costs O(log n).

use alloc::{sync::Arc, vec::Vec};
use core::{borrow::Borrow, cmp::Ordering};
use lazaret_invariant::invariant;

/// Entries in a leaf, children in a branch. Copying a path costs this many clones per level.
const NODE_LEN_MAX: usize = 32;

/// An ordered map with cheap clones.
#[derive(Clone, Debug)]
pub(crate) struct PMap<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    /// Each child with a lower bound of its keys. The first bound is never compared.
    Branch(Vec<(K, Arc<Node<K, V>>)>),
}

impl<K: Ord + Clone, V: Clone> PMap<K, V> {
    pub(crate) fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
                Node::Branch(children) => node = &children[child_of(children, key)].1,
            }
        }
    }

    /// Sets the value of `key`, and says which it had before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (old, split) = Arc::make_mut(&mut self.root).insert(key, value);
        if let Some(right) = split {
            let left = core::mem::replace(&mut self.root, Arc::new(Node::Leaf(Vec::new())));
            let children =
                [left, Arc::new(right)].into_iter().filter_map(|n| Some((n.first_key()?.clone(), n)));
            self.root = Arc::new(Node::Branch(children.collect()));
        }
        if old.is_none() {
            self.len += 1;
        }
        old
    }

    /// Takes `key` out, and says which value it had.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let old = Arc::make_mut(&mut self.root).remove(key);
        self.len -= usize::from(old.is_some());
        while let Node::Branch(children) = &*self.root {
            match children.as_slice() {
                [] => self.root = Arc::new(Node::Leaf(Vec::new())),
                [(_, only)] => self.root = only.clone(),
                _ => break,
            }
        }
        old
    }

    /// Visits, in key order, every key whose values in `older` and here are not `same`: with the older value and
    /// the one here. Costs what differs, not what there is: what both share is skipped unseen.
    pub(crate) fn differences<'m>(
        &'m self,
        older: &'m Self,
        same: impl Fn(&V, &V) -> bool,
        mut visit: impl FnMut(&'m K, Option<&'m V>, Option<&'m V>),
    ) {
        let (mut old, mut new) = (Walk::new(&older.root), Walk::new(&self.root));
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(At::Node(a)), Some(At::Node(b))) if Arc::ptr_eq(a, b) => {
                    old.skip();
                    new.skip();
                }
                (Some(At::Node(a)), Some(At::Node(b))) => {
                    let (a, b) = (a.height(), b.height());
                    if a >= b {
                        old.enter();
                    }
                    if b >= a {
                        new.enter();
                    }
                }
                (Some(At::Node(_)), Some(At::Entry(..)) | None) => old.enter(),
                (Some(At::Entry(..)) | None, Some(At::Node(_))) => new.enter(),
                (Some(At::Entry(key, a)), Some(At::Entry(other, b))) => match key.cmp(other) {
                    Ordering::Less => {
                        visit(key, Some(a), None);
                        old.skip();
                    }
                    Ordering::Greater => {
                        visit(other, None, Some(b));
                        new.skip();
                    }
                    Ordering::Equal => {
                        if !same(a, b) {
                            visit(key, Some(a), Some(b));
                        }
                        old.skip();
                        new.skip();
                    }
                },
                (Some(At::Entry(key, a)), None) => {
                    visit(key, Some(a), None);
                    old.skip();
                }
                (None, Some(At::Entry(key, b))) => {
                    visit(key, None, Some(b));
                    new.skip();
                }
            }
        }
    }

    /// All entries in key order.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root);
        iter
    }
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    fn first_key(&self) -> Option<&K> {
        match self {
            Self::Leaf(entries) => entries.first().map(|(k, _)| k),
            Self::Branch(children) => children.first().map(|(k, _)| k),
        }
    }

    fn insert(&mut self, key: K, value: V) -> (Option<V>, Option<Self>) {
        match self {
            Self::Leaf(entries) => match entries.binary_search_by(|(k, _)| k.cmp(&key)) {
                Ok(at) => (Some(core::mem::replace(&mut entries[at].1, value)), None),
                Err(at) => {
                    entries.insert(at, (key, value));
                    (None, upper_half(entries).map(Self::Leaf))
                }
            },
            Self::Branch(children) => {
                let at = child_of(children, &key);
                let (old, split) = Arc::make_mut(&mut children[at].1).insert(key, value);
                if let Some(right) = split
                    && let Some(bound) = right.first_key().cloned()
                {
                    children.insert(at + 1, (bound, Arc::new(right)));
                }
                (old, upper_half(children).map(Self::Branch))
            }
        }
    }

    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Self::Branch(children) => {
                let at = child_of(children, key);
                let child = Arc::make_mut(&mut children[at].1);
                let old = child.remove(key);
                // Nodes are not merged, only dropped when empty: the tree stays as deep as it once had to be.
                if child.first_key().is_none() {
                    children.remove(at);
                }
                old
            }
        }
    }
}

fn child_of<K: Borrow<Q>, V, Q: Ord + ?Sized>(children: &[(K, V)], key: &Q) -> usize {
    children.partition_point(|(bound, _)| bound.borrow() <= key).saturating_sub(1)
}

fn upper_half<T>(items: &mut Vec<T>) -> Option<Vec<T>> {
    (items.len() > NODE_LEN_MAX).then(|| {
        let upper = items.split_off(items.len() / 2);
        // Keys mostly come in order, and then this half never grows again.
        items.shrink_to_fit();
        upper
    })
}

/// A place in a tree that enters nodes only when told to.
struct Walk<'a, K, V> {
    path: Vec<Level<'a, K, V>>,
}

enum Level<'a, K, V> {
    Root(&'a Arc<Node<K, V>>),
    Children(&'a [(K, Arc<Node<K, V>>)]),
    Entries(&'a [(K, V)]),
}

enum At<'a, K, V> {
    Node(&'a Arc<Node<K, V>>),
    Entry(&'a K, &'a V),
}

impl<'a, K, V> Walk<'a, K, V> {
    fn new(root: &'a Arc<Node<K, V>>) -> Self {
        Self { path: Vec::from([Level::Root(root)]) }
    }

    /// The next entry or node.
    fn peek(&mut self) -> Option<At<'a, K, V>> {
        loop {
            match self.path.last()? {
                Level::Root(root) => return Some(At::Node(root)),
                Level::Children([(_, first), ..]) => return Some(At::Node(first)),
                Level::Entries([(key, value), ..]) => return Some(At::Entry(key, value)),
                Level::Children([]) | Level::Entries([]) => {
                    self.path.pop();
                }
            }
        }
    }

    /// Leaves out what comes next.
    fn skip(&mut self) {
        match self.path.last_mut() {
            Some(Level::Root(_)) => drop(self.path.pop()),
            Some(Level::Children(children)) => *children = children.get(1..).unwrap_or_default(),
            Some(Level::Entries(entries)) => *entries = entries.get(1..).unwrap_or_default(),
            // At the end.
            None => {}
        }
    }

    /// Goes into the node that comes next.
    fn enter(&mut self) {
        if let Some(At::Node(node)) = self.peek() {
            self.skip();
            self.path.push(match &**node {
                Node::Leaf(entries) => Level::Entries(entries),
                Node::Branch(children) => Level::Children(children),
            });
        }
    }
}

impl<K, V> Node<K, V> {
    /// How many levels there are below: the same on every path.
    fn height(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Branch(children) => children.first().map_or(0, |(_, child)| 1 + child.height()),
        }
    }
}

/// The children of a branch that are still to be visited.
type Children<'a, K, V> = core::slice::Iter<'a, (K, Arc<Node<K, V>>)>;

/// Entries in key order.
#[derive(Debug)]
pub(crate) struct Iter<'a, K, V> {
    path: Vec<Children<'a, K, V>>,
    leaf: core::slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn descend(&mut self, mut node: &'a Node<K, V>) {
        loop {
            match node {
                Node::Leaf(entries) => {
                    self.leaf = entries.iter();
                    return;
                }
                Node::Branch(children) => {
                    let mut rest = children.iter();
                    let Some((_, first)) = invariant!(rest.next(), "a branch has children") else { return };
                    self.path.push(rest);
                    node = first;
                }
            }
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            match self.path.last_mut()?.next() {
                Some((_, node)) => self.descend(node),
                None => {
                    self.path.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_btree_and_clones_do_not_move(
            steps in proptest::collection::vec((any::<bool>(), 0u32..400, any::<u16>()), 0..1500),
            taken_at in 0usize..1500,
        ) {
            let (mut map, mut model) = (PMap::new(), BTreeMap::new());
            let mut taken = None;
            for (i, (insert, key, value)) in steps.into_iter().enumerate() {
                if i == taken_at {
                    taken = Some((map.clone(), model.clone()));
                }
                if insert {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.len(), model.len());
            }
            prop_assert!(map.iter().eq(model.iter()));
            if let Some((then, model_then)) = taken {
                prop_assert!(then.iter().eq(model_then.iter()));
                let mut found = Vec::new();
                map.differences(&then, |a, b| a == b, |key, old, new| found.push((*key, old.copied(), new.copied())));
                let keys: std::collections::BTreeSet<u32> = model.keys().chain(model_then.keys()).copied().collect();
                let pairs = keys.into_iter().map(|key| (key, model_then.get(&key).copied(), model.get(&key).copied()));
                prop_assert_eq!(found, pairs.filter(|(_, old, new)| old != new).collect::<Vec<_>>());
            }
        }
    }
}
