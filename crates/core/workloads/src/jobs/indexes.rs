//! Indexed jobs: each pod has a number, and each number is done once.

use k8s_openapi::api::batch::v1::{JobSpec, SuccessPolicy};

use crate::{meta, pods, prelude::*};

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// More indexes than this are not read from a status.
const INDEXES_MAX: i32 = 100_000;

/// The number of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    meta::annotation(&pod.metadata, INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// `1,3-5` as numbers.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend(first.max(0)..=last.min(INDEXES_MAX));
        }
    }
    indexes
}

/// The indexes below `completions`.
pub(super) fn below(completions: i32, mut indexes: BTreeSet<i32>) -> BTreeSet<i32> {
    drop(indexes.split_off(&completions));
    indexes
}

/// Numbers as `1,3-5`.
pub(super) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            Some(_) | None => runs.push((*index, *index)),
        }
    }
    let texts = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The lowest numbers that are neither over nor being done.
pub(super) fn pending(over: &BTreeSet<i32>, active: &[Arc<Pod>], completions: i32, limit: usize) -> Vec<i32> {
    let busy: BTreeSet<i32> =
        active.iter().filter(|pod| pods::is_active(pod)).filter_map(|pod| of(pod)).collect();
    let free = (0..completions).filter(|index| !over.contains(index) && !busy.contains(index));
    free.take(limit).collect()
}

/// Names of pods whose number another pod has as well, or which is beyond the last.
pub(super) fn doubles(spec: &JobSpec, active: &[Arc<Pod>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let completions = spec.completions.unwrap_or(0);
    let surplus = active.iter().filter(|pod| match of(pod) {
        Some(index) => index >= completions || !seen.insert(index),
        None => true,
    });
    surplus.map(|pod| meta::name(&pod.metadata).to_owned()).collect()
}

/// Whether the numbers that are done are enough by a job's own rules, and by which.
pub(super) fn met_criterion(policy: &SuccessPolicy, completed: &BTreeSet<i32>) -> Option<String> {
    let met = policy.rules.iter().position(|rule| {
        let wanted = rule.succeeded_indexes.as_deref().map(parse);
        let relevant =
            wanted.as_ref().map_or(completed.len(), |wanted| wanted.intersection(completed).count());
        let all = wanted.map(|wanted| wanted.len());
        let needed = rule.succeeded_count.map(crate::writes::size).or(all);
        all != Some(0) && needed.is_some_and(|needed| needed > 0 && relevant >= needed)
    })?;
    Some(format!("Matched rules at index {met}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_be_content_with_less() {
        let rows = [
            (json!([{"succeededIndexes": "0,2-3"}]), "0-2", false),
            (json!([{"succeededIndexes": "0,2-3"}]), "0,2,3", true),
            (json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]), "2-3", true),
            (json!([{"succeededCount": 2}]), "7", false),
            (json!([{"succeededCount": 5}, {"succeededCount": 1}]), "7", true),
            (json!([{"succeededIndexes": ""}]), "7", false),
        ];
        for (rules, done, expected) in rows {
            let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
            assert_eq!(met_criterion(&policy, &parse(done)).is_some(), expected, "{rules} {done}");
        }
    }

    #[test]
    fn indexes_are_written_as_runs() {
        for text in ["", "0", "1,3-5,7", "0,1", "0-2,9"] {
            assert_eq!(format(&parse(text)), text);
        }
        assert_eq!(parse("x,2-,4"), BTreeSet::from([4]));
    }
}
