//! Evictions by what set the taint. Names of rules and keys of taints are chosen by users: a series goes with its rule, and those beyond a limit are
//! counted as one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// The source of taints that drivers set: there are as many slices as nodes.
pub(super) const SLICES: &str = "slice";
/// Series at most; further ones share one.
const SERIES_MAX: usize = 500;
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Cause {
    /// The source of the taint: the name of a rule or patch, or `slice`, or `other`.
    source: String,
    key: String,
}

/// The keys that are counted for each source, and of which resource that is.
type Known = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// The counts. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct CauseCounts {
    family: Family<Cause, Counter>,
    known: Arc<Mutex<Known>>,
}

impl CauseCounts {
    pub(super) fn family(&self) -> Family<Cause, Counter> {
        self.family.clone()
    }

    /// One more eviction. `of`: the resource of the source, in the plural.
    pub(super) fn inc(&self, of: &'static str, source: &str, key: &str) {
        let mut known = self.known();
        let is_known = known.get(&(of, source.to_owned())).is_some_and(|keys| keys.contains(key));
        let series: usize = known.values().map(BTreeSet::len).sum();
        let is_counted = is_known || series < SERIES_MAX;
        let (of, source, key) = if is_counted { (of, source, key) } else { (OTHER, OTHER, OTHER) };
        let cause = Cause { source: source.to_owned(), key: key.to_owned() };
        known.entry((of, cause.source.clone())).or_default().insert(cause.key.clone());
        self.family.get_or_create(&cause).inc();
    }

    /// The object of this name is gone.
    pub(super) fn forget(&self, of: &'static str, source: &str) {
        for key in self.known().remove(&(of, source.to_owned())).unwrap_or_default() {
            self.family.remove(&Cause { source: source.to_owned(), key });
        }
    }

    /// These are all objects of a resource.
    pub(super) fn keep<'a>(&self, of: &'static str, sources: impl Iterator<Item = &'a str>) {
        if !self.known().keys().any(|(at, _)| *at == of) {
            return;
        }
        let there: BTreeSet<&str> = sources.collect();
        let is_gone = |(at, source): &&(&'static str, String)| *at == of && !there.contains(source.as_str());
        let gone: Vec<_> = self.known().keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|(_, source)| self.forget(of, source));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::Metrics;

    use super::*;

    const RULES: &str = "devicetaintrules";

    fn lines(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text();
        text.lines().filter(|line| line.starts_with("evictions_total")).map(str::to_owned).collect()
    }

    #[test]
    fn a_series_goes_with_its_rule_and_their_number_is_bounded() {
        let (metrics, counts) = (Metrics::default(), CauseCounts::default());
        metrics.register(|registry| registry.register("evictions", "", counts.family()));
        for number in 0..2 * SERIES_MAX {
            counts.inc(RULES, &format!("rule-{number}"), "k");
        }
        counts.inc(RULES, "rule-1", "k");
        assert_eq!(lines(&metrics).len(), SERIES_MAX + 1);
        let others = format!("evictions_total{{source=\"other\",key=\"other\"}} {SERIES_MAX}");
        assert!(lines(&metrics).contains(&others), "{:?}", lines(&metrics));
        counts.forget(RULES, "rule-0");
        assert!(!lines(&metrics).iter().any(|line| line.contains("\"rule-0\"")));
        // Objects of another resource are not listed with these.
        counts.keep(RULES, ["rule-1"].into_iter());
        counts.inc(SLICES, SLICES, "k");
        counts.keep(RULES, ["rule-1"].into_iter());
        let left = lines(&metrics);
        assert!(left.contains(&"evictions_total{source=\"rule-1\",key=\"k\"} 2".to_owned()), "{left:?}");
        assert_eq!(left.len(), 3, "{left:?}");
    }
}
