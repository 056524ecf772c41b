//! Pods on nodes that keep others away, by what they keep away: pods of one workload all say the same.

use alloc::{collections::BTreeMap, vec::Vec};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::PodTerm;

/// The terms of pods on nodes. As many as pods on nodes have different ones.
#[derive(Debug, Default)]
pub(crate) struct AntiAffinityTerms {
    terms: Vec<Term>,
    places: HashMap<PodTerm, usize, FxBuildHasher>,
    vacant: Vec<usize>,
}

/// A term, and how many pods on which nodes have it.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) term: PodTerm,
    pub(crate) nodes: BTreeMap<u32, usize>,
}

impl AntiAffinityTerms {
    /// The terms that some pod has, in no particular but always the same order.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(|term| !term.nodes.is_empty())
    }

    /// A pod with these terms is on a node.
    pub(crate) fn add(&mut self, terms: &[PodTerm], node: u32) {
        for term in terms {
            let at = self.place_of(term);
            *self.terms[at].nodes.entry(node).or_insert(0) += 1;
        }
    }

    /// A pod with these terms is not on a node any more.
    pub(crate) fn remove(&mut self, terms: &[PodTerm], node: u32) {
        for term in terms {
            let Some(&at) = self.places.get(term) else { continue };
            let nodes = &mut self.terms[at].nodes;
            if let Some(count) = nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.places.remove(term);
                self.vacant.push(at);
            }
        }
    }

    fn place_of(&mut self, term: &PodTerm) -> usize {
        if let Some(&at) = self.places.get(term) {
            return at;
        }
        let new = Term { term: term.clone(), nodes: BTreeMap::new() };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.terms[at] = new;
                at
            }
            None => {
                self.terms.push(new);
                self.terms.len() - 1
            }
        };
        self.places.insert(term.clone(), at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_says_is_forgotten_and_its_place_used_again() {
        let term = |topology: &str| PodTerm { topology: topology.into(), ..PodTerm::default() };
        let shown = |terms: &AntiAffinityTerms| {
            let all = terms.terms().map(|term| (term.term.topology.to_string(), term.nodes.clone()));
            all.collect::<Vec<_>>()
        };
        use alloc::string::ToString;
        let mut terms = AntiAffinityTerms::default();
        terms.add(&[term("a"), term("b")], 1);
        terms.add(&[term("a")], 1);
        terms.add(&[term("a")], 2);
        assert_eq!(
            shown(&terms),
            [("a".to_string(), [(1, 2), (2, 1)].into()), ("b".to_string(), [(1, 1)].into())]
        );
        terms.remove(&[term("a"), term("b")], 1);
        terms.remove(&[term("a")], 2);
        assert_eq!(shown(&terms), [("a".to_string(), [(1, 1)].into())]);
        terms.add(&[term("c")], 3);
        assert_eq!(terms.terms.len(), 2, "the place of b");
        terms.remove(&[term("unknown")], 3);
        assert_eq!(shown(&terms).len(), 2);
    }
}
