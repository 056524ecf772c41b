//! The status that a quota should have, and when it is written.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use lazaret_machine::{Machine as _, Outcome};
use lazaret_quota::{
    Classes, Counted, Effect, Facts, Quota, QuotaChange, Quotas, RESYNC_SECS, Timestamp, Usage,
};

const START: Timestamp = Timestamp::from_secs(1_000);

fn quota(version: u32, status: &str) -> Quota {
    Quota::read(
        format!(
            r#"{{"metadata": {{"name": "q", "namespace": "n", "uid": "u", "resourceVersion": "{version}"}},
            "spec": {{"hard": {{"pods": "5", "configmaps": "2", "count/unknown.example.com": "1"}}}}, "status": {status}}}"#
        )
        .as_bytes(),
    )
    .unwrap()
}

fn put(quotas: &mut Quotas, now: Timestamp, plural: &str, name: &str, text: &str) {
    let kind = Counted::of("", plural).unwrap();
    let facts = Facts::read(&kind, text.as_bytes()).unwrap();
    let usage = Usage::of(&kind, &facts, &Classes::default(), None);
    quotas.put(now, &kind, "n", name, usage);
}

/// The write after a view of everything.
fn written(quotas: &mut Quotas, now: Timestamp) -> Option<Effect> {
    quotas.think(now);
    let (number, _) = quotas.wants_view(now)?;
    quotas.view_reached(number);
    quotas.poll_effect()
}

fn ready() -> Quotas {
    let mut quotas = Quotas::default();
    for plural in ["pods", "configmaps", "secrets"] {
        quotas.learn("", plural);
    }
    assert_eq!(quotas.set_quota(START, quota(1, "{}")), QuotaChange::First);
    quotas
}

const RUNNING: &str = r#"{"status": {"phase": "Running"}}"#;

#[test]
fn a_new_quota_is_written_at_once_when_all_that_it_counts_is_known() {
    let mut quotas = ready();
    let needs: Vec<&str> = quotas.needs().into_iter().map(|(_, plural)| plural.as_str()).collect();
    assert_eq!(needs, ["configmaps", "pods"]);
    put(&mut quotas, START, "pods", "a", RUNNING);
    quotas.list("", "pods");
    assert_eq!(written(&mut quotas, START), None, "config maps were not listed");
    quotas.list("", "configmaps");
    let effect = written(&mut quotas, START).unwrap();
    assert_eq!(
        (effect.kind.used.to_string().as_str(), effect.kind.resource_version.as_str()),
        ("configmaps=0,pods=1", "1")
    );
    assert_eq!(effect.kind.hard.to_string(), "configmaps=2,count/unknown.example.com=1,pods=5");
    assert_eq!(written(&mut quotas, START), None, "it is in flight");
    quotas.acknowledge(START, effect.id, Outcome::Done);
    let stored = r#"{"hard": {"pods": "5", "configmaps": "2", "count/unknown.example.com": "1"}, "used": {"pods": "1", "configmaps": "0"}}"#;
    assert_eq!(quotas.set_quota(START, quota(2, stored)), QuotaChange::Same);
    assert_eq!(written(&mut quotas, START.plus_secs(60)), None);
    assert_eq!(quotas.next_wake().map(|wake| wake.at), Some(START.plus_secs(RESYNC_SECS)));
}

#[test]
fn a_difference_is_written_once_it_lasts_and_only_for_the_version_that_the_view_was_for() {
    let mut quotas = ready();
    quotas.list("", "pods");
    quotas.list("", "configmaps");
    let stored = |used: u32| {
        format!(
            r#"{{"hard": {{"pods": "5", "configmaps": "2", "count/unknown.example.com": "1"}}, "used": {{"pods": "{used}", "configmaps": "0"}}}}"#
        )
    };
    quotas.set_quota(START, quota(2, &stored(1)));
    quotas.think(START);
    assert_eq!(quotas.wants_view(START), None, "the pod may be on its way");
    put(&mut quotas, START.plus_millis(100), "pods", "a", RUNNING);
    quotas.think(START.plus_millis(100));
    assert_eq!(quotas.wants_view(START.plus_secs(9)), None, "it was");
    let kind = Counted::of("", "pods").unwrap();
    quotas.remove(START, &kind, "n", "a");
    quotas.think(START);
    let later = START.plus_secs(1);
    let (number, _) = quotas.wants_view(later).unwrap();
    quotas.set_quota(later, quota(3, &stored(2)));
    quotas.view_reached(number);
    assert_eq!(quotas.poll_effect(), None, "the view is older than the quota");
    let effect = written(&mut quotas, later.plus_secs(1)).unwrap();
    assert_eq!(
        (effect.kind.resource_version.as_str(), effect.kind.used.to_string().as_str()),
        ("3", "configmaps=0,pods=0")
    );
    quotas.acknowledge(later, effect.id, Outcome::Conflict);
    assert_eq!(written(&mut quotas, later), None, "after a failure it waits");
    assert!(written(&mut quotas, later.plus_secs(2)).is_some());
}

#[test]
fn a_pod_that_should_be_gone_stops_counting_at_its_time() {
    let mut quotas = ready();
    quotas.list("", "pods");
    quotas.list("", "configmaps");
    let leaving =
        r#"{"metadata": {"deletionTimestamp": "1970-01-01T00:16:50Z", "deletionGracePeriodSeconds": 30}}"#;
    put(&mut quotas, START, "pods", "a", leaving);
    let effect = written(&mut quotas, START).unwrap();
    assert_eq!(effect.kind.used.to_string(), "configmaps=0,pods=1");
    quotas.acknowledge(START, effect.id, Outcome::RetryLater);
    let over = START.plus_secs(41);
    assert_eq!(written(&mut quotas, over).unwrap().kind.used.to_string(), "configmaps=0,pods=0");
    quotas.remove_quota("n", "q");
    assert!(!quotas.tracks("n") && quotas.needs().is_empty());
}

#[test]
fn a_kind_that_is_not_known_any_more_stops_the_count_until_it_is() {
    let mut quotas = ready();
    quotas.list("", "pods");
    quotas.list("", "configmaps");
    put(&mut quotas, START, "pods", "a", RUNNING);
    quotas.clear(START, "", "pods");
    assert_eq!(written(&mut quotas, START), None);
    put(&mut quotas, START, "pods", "b", RUNNING);
    put(&mut quotas, START, "pods", "c", RUNNING);
    quotas.list("", "pods");
    assert_eq!(written(&mut quotas, START).unwrap().kind.used.to_string(), "configmaps=0,pods=2");
}

#[test]
fn late_answers_and_news_of_what_is_gone_change_nothing() {
    let mut quotas = ready();
    quotas.list("", "pods");
    quotas.list("", "configmaps");
    let effect = written(&mut quotas, START).unwrap();
    quotas.remove_quota("n", "q");
    quotas.remove_quota("n", "q");
    quotas.acknowledge(START, effect.id, Outcome::Unknown);
    quotas.acknowledge(START, effect.id, Outcome::Done);
    put(&mut quotas, START, "pods", "a", RUNNING);
    quotas.remove(START, &Counted::of("", "pods").unwrap(), "n", "a");
    quotas.view_reached(7);
    assert_eq!(written(&mut quotas, START.plus_secs(RESYNC_SECS)), None);
    // A pod whose end was near goes before it, and so does its kind.
    assert_eq!(quotas.set_quota(START, quota(1, "{}")), QuotaChange::First);
    let leaving =
        r#"{"metadata": {"deletionTimestamp": "1970-01-01T00:16:50Z", "deletionGracePeriodSeconds": 30}}"#;
    put(&mut quotas, START, "pods", "a", leaving);
    quotas.clear(START, "", "pods");
    quotas.think(START.plus_secs(60));
    quotas.list("", "pods");
    let used = written(&mut quotas, START.plus_secs(60)).unwrap().kind.used.to_string();
    assert_eq!(used, "configmaps=0,pods=0");
}

mod against_counting_anew {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes in whatever order, the totals are those of the objects that are there.
        #[test]
        fn totals_are_those_of_what_is_there(steps in proptest::collection::vec((0_u8..6, 0_u8..4, 0_i64..100), 0..60)) {
            let mut quotas = ready();
            quotas.list("", "pods");
            quotas.list("", "configmaps");
            let mut there = std::collections::BTreeMap::new();
            let kind = Counted::of("", "pods").unwrap();
            let mut now = START;
            for (name, what, passed) in steps {
                now = now.plus_secs(passed);
                let name = format!("p{name}");
                let leaving = format!(r#"{{"metadata": {{"deletionTimestamp": "{}", "deletionGracePeriodSeconds": 5}}}}"#,
                    jiff::Timestamp::from_second(now.as_secs() + 10).unwrap());
                match what {
                    0 => { there.remove(&name); quotas.remove(now, &kind, "n", &name); }
                    1 => { there.insert(name.clone(), None); put(&mut quotas, now, "pods", &name, RUNNING); }
                    2 => { there.insert(name.clone(), Some(Timestamp::EPOCH)); put(&mut quotas, now, "pods", &name, r#"{"status": {"phase": "Failed"}}"#); }
                    _ => { there.insert(name.clone(), Some(now.plus_secs(15))); put(&mut quotas, now, "pods", &name, &leaving); }
                }
                if passed % 3 == 0 {
                    quotas.think(now);
                }
            }
            let count = there.values().filter(|end| end.is_none_or(|end| now <= end)).count();
            let used = written(&mut quotas, now).unwrap().kind.used;
            prop_assert_eq!(used.get("pods").unwrap().to_string(), count.to_string());
        }
    }
}
