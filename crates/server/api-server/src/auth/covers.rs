//! Compares the rules that a user wants to grant with the rules that the user holds.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{ALL, Rule, fits_path};

/// Comparisons of one wanted permission with one held rule in one check. They take a fraction of a second; without the limit, a role with a
/// thousand verbs, resources and names would keep a thread busy for hours.
const COMPARISONS_MAX: usize = 1_000_000;

/// Why rules are not covered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CoverError {
    /// These permissions are not held, one verb, group, resource and name each.
    Missing(Vec<Rule>),
    // DEVIATION(escalation-limit): Kubernetes compares however long it takes.
    /// The comparison would exceed [`COMPARISONS_MAX`].
    TooMany,
}

/// Checks that `held` covers `wanted`. A rule that lists several verbs, groups, resources or names stands for all their combinations; each is
/// covered by one held rule or by none.
pub(super) fn covers(held: &[Rule], wanted: &[Rule]) -> Result<(), CoverError> {
    let held: Vec<HeldRule<'_>> = held.iter().map(HeldRule::new).collect();
    let open: Vec<&Rule> = wanted.iter().filter(|rule| !held.iter().any(|held| held.covers(rule))).collect();
    let combinations = open.iter().fold(0, |sum: usize, rule| sum.saturating_add(combinations(rule)));
    if combinations.saturating_mul(held.len().max(1)) > COMPARISONS_MAX {
        return Err(CoverError::TooMany);
    }
    let missing: Vec<Rule> = open
        .iter()
        .flat_map(|rule| breakdown(rule))
        .filter(|one| !held.iter().any(|held| held.covers(one)))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(CoverError::Missing(missing)) }
}

/// Merges permissions that differ only in their verb.
pub(super) fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut merged: Vec<Rule> = Vec::new();
    let mut places: BTreeMap<(String, String, Option<String>), usize> = BTreeMap::new();
    for rule in rules {
        let ([group], [resource], [] | [_], []) =
            (&rule.groups[..], &rule.resources[..], &rule.names[..], &rule.paths[..])
        else {
            merged.push(rule);
            continue;
        };
        let key = (group.clone(), resource.clone(), rule.names.first().cloned());
        match places.get(&key).and_then(|at| merged.get_mut(*at)) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => {
                places.insert(key, merged.len());
                merged.push(rule);
            }
        }
    }
    merged
}

/// A held rule with its lists as sets.
struct HeldRule<'a> {
    verbs: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    paths: &'a [String],
}

impl<'a> HeldRule<'a> {
    fn new(rule: &'a Rule) -> Self {
        let set = |list: &'a [String]| list.iter().map(String::as_str).collect();
        Self {
            verbs: set(&rule.verbs),
            groups: set(&rule.groups),
            resources: set(&rule.resources),
            names: set(&rule.names),
            paths: &rule.paths,
        }
    }

    /// Whether this rule alone allows everything that `rule` allows.
    fn covers(&self, rule: &Rule) -> bool {
        let all = |held: &BTreeSet<&str>, wanted: &[String]| {
            held.contains(ALL) || wanted.iter().all(|text| held.contains(text.as_str()))
        };
        let names = self.names.is_empty()
            || !rule.names.is_empty() && rule.names.iter().all(|name| self.names.contains(name.as_str()));
        names
            && all(&self.verbs, &rule.verbs)
            && all(&self.groups, &rule.groups)
            && (self.resources.contains(ALL) || rule.resources.iter().all(|one| self.covers_resource(one)))
            && rule.paths.iter().all(|path| self.paths.iter().any(|held| fits_path(held, path)))
    }

    fn covers_resource(&self, resource: &str) -> bool {
        self.resources.contains(resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, sub)| self.resources.contains(format!("*/{sub}").as_str()))
    }
}

fn combinations(rule: &Rule) -> usize {
    let resources = rule
        .groups
        .len()
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.names.len().max(1))
        .saturating_add(rule.paths.len());
    resources.saturating_mul(rule.verbs.len())
}

/// A rule as rules of one verb, group, resource and name each, or one verb and path.
fn breakdown(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> =
        if rule.names.is_empty() { vec![Vec::new()] } else { rule.names.iter().map(one).collect() };
    let mut parts = Vec::with_capacity(combinations(rule));
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                parts.extend(names.iter().map(|names| Rule {
                    verbs: one(verb),
                    groups: one(group),
                    resources: one(resource),
                    names: names.clone(),
                    paths: Vec::new(),
                }));
            }
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| Rule {
            verbs: one(verb),
            paths: one(path),
            ..Rule::default()
        }));
    }
    parts
}

#[cfg(test)]
mod tests;
