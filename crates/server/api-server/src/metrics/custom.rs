//! Series of kinds that definitions bring. They go when their definition is gone, and kinds beyond a limit share one label.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::labels::{Answered, RequestLabels, ResourceLabels};

/// Kinds that are counted by name; further ones are counted as one.
pub(super) const KINDS_MAX: usize = 200;
const OTHER: &str = "other";

/// The series of one kind.
#[derive(Debug, Default)]
pub(super) struct KindSeries {
    pub(super) answered: HashSet<Answered>,
    pub(super) subjects: HashSet<RequestLabels>,
    pub(super) resources: HashSet<ResourceLabels>,
}

/// The series of all such kinds, by group and plural.
#[derive(Debug, Default)]
pub(super) struct CustomSeries {
    kinds: Mutex<BTreeMap<(String, String), KindSeries>>,
}

impl CustomSeries {
    /// The labels under which a request is counted, and its series. Requests for built-in kinds are counted as they are.
    pub(super) fn count(
        &self,
        subject: RequestLabels,
        note: impl FnOnce(&mut KindSeries, &RequestLabels),
    ) -> RequestLabels {
        let Some((group, resource)) = subject.custom_kind() else { return subject };
        let mut kinds = self.kinds();
        let key = (group.to_owned(), resource.to_owned());
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&key) {
            let other = || Cow::Borrowed(OTHER);
            return subject.with_kind(other(), other(), other());
        }
        note(kinds.entry(key).or_default(), &subject);
        subject
    }

    /// Takes out the series of kinds that are not served any more.
    pub(super) fn take_gone(&self, is_served: impl Fn(&str, &str) -> bool) -> Vec<KindSeries> {
        let mut kinds = self.kinds();
        let gone: Vec<(String, String)> =
            kinds.keys().filter(|(group, resource)| !is_served(group, resource)).cloned().collect();
        gone.iter().filter_map(|kind| kinds.remove(kind)).collect()
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<(String, String), KindSeries>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
