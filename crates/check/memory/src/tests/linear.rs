//! The judge of concurrent histories: true ones pass, and each kind of lie is refused.

use std::collections::BTreeMap;

use crate::Memory;
use crate::linear::{Change, History, Operation, Seen, What, Written, check, concurrent_session};

fn change(revision: u64, key: &str, value: Option<&str>) -> Change {
    Change { revision, key: key.into(), value: value.map(Into::into) }
}

fn wrote(revision: u64, key: &str, value: Option<&str>, expected: &[(&str, Written)]) -> What {
    let expected = expected.iter().map(|(key, written)| ((*key).to_owned(), *written)).collect();
    What::Wrote { changes: vec![change(revision, key, value)], expected }
}

fn read(key: &str, found: Option<(u64, &str)>) -> What {
    What::Read {
        key: key.into(),
        found: found.map(|(revision, value)| Seen { revision, value: value.into() }),
    }
}

fn listed(revision: u64, found: &[(&str, u64, &str)]) -> What {
    let found = found.iter().map(|(key, revision, value)| {
        ((*key).to_owned(), Seen { revision: *revision, value: (*value).to_owned() })
    });
    What::Listed { prefix: "/".into(), revision, found: found.collect::<BTreeMap<_, _>>() }
}

fn watched(delivered: &[(u64, Change)], progress: u64) -> What {
    What::Watched { prefix: "/".into(), from: 1, delivered: delivered.to_vec(), progress }
}

fn judge(operations: &[(u64, u64, What)]) -> Result<(), String> {
    let operations = operations
        .iter()
        .map(|(start, end, what)| Operation { start: *start, end: *end, what: what.clone() })
        .collect();
    check(&History { first: 1, operations })
}

fn refused(operations: &[(u64, u64, What)], why: &str) {
    let verdict = judge(operations);
    assert!(verdict.as_ref().is_err_and(|error| error.contains(why)), "{verdict:?} does not say {why:?}");
}

#[test]
fn what_one_order_explains_is_accepted() {
    judge(&[
        (0, 9, wrote(2, "/a", Some("1"), &[("/a", Written::Absent)])),
        // Beside the write: before it or after it.
        (1, 2, read("/a", None)),
        (3, 4, read("/a", Some((2, "1")))),
        (5, 6, listed(2, &[("/a", 2, "1")])),
        (10, 11, wrote(3, "/a", None, &[("/a", Written::At(2))])),
        (12, 13, What::Refused { key: "/a".into(), expected: Written::At(2), found: Some(Written::Absent) }),
        (14, 20, watched(&[(15, change(2, "/a", Some("1"))), (16, change(3, "/a", None))], 3)),
    ])
    .unwrap();
}

#[test]
fn a_stale_read_is_refused() {
    let write = (0, 1, wrote(2, "/a", Some("1"), &[]));
    refused(&[write.clone(), (2, 3, read("/a", None))], "nothing explains");
    refused(&[write.clone(), (2, 3, listed(1, &[]))], "nothing explains");
    // Another client saw it already, although the write itself is not answered.
    let slow = (0, 9, wrote(2, "/a", Some("1"), &[]));
    refused(
        &[slow.clone(), (2, 3, read("/a", Some((2, "1")))), (4, 5, read("/a", None))],
        "nothing explains",
    );
    let delivered = (1, 8, watched(&[(3, change(2, "/a", Some("1")))], 2));
    refused(&[slow, delivered, (4, 5, read("/a", None))], "nothing explains");
}

#[test]
fn an_answer_from_the_future_is_refused() {
    refused(&[(5, 6, wrote(2, "/a", Some("1"), &[])), (1, 2, read("/a", Some((2, "1"))))], "future");
    let early = (0, 9, watched(&[(1, change(2, "/a", Some("1")))], 2));
    refused(&[(5, 6, wrote(2, "/a", Some("1"), &[])), early], "before anybody wrote it");
}

#[test]
fn a_lost_or_doubled_write_is_refused() {
    refused(&[(0, 1, wrote(2, "/a", Some("1"), &[])), (2, 3, wrote(2, "/a", Some("2"), &[]))], "given twice");
    let first = (0, 1, wrote(3, "/a", Some("1"), &[]));
    refused(&[first.clone(), (2, 3, wrote(2, "/b", Some("2"), &[]))], "future");
    refused(&[first, (2, 3, wrote(4, "/a", Some("2"), &[("/a", Written::Absent)]))], "nothing explains");
}

#[test]
fn a_refusal_without_a_reason_is_refused() {
    let write = (0, 1, wrote(2, "/a", Some("1"), &[]));
    let refusal = What::Refused { key: "/a".into(), expected: Written::At(2), found: None };
    refused(&[write, (2, 3, refusal)], "nothing explains");
}

#[test]
fn a_watch_that_leaves_out_repeats_or_reorders_is_refused() {
    let (two, three) = (change(2, "/a", Some("1")), change(3, "/a", Some("2")));
    let writes = [(0, 1, wrote(2, "/a", Some("1"), &[])), (2, 3, wrote(3, "/a", Some("2"), &[]))];
    let with = |watch: What| [&writes[..], &[(4, 9, watch)]].concat();
    judge(&with(watched(&[(5, two.clone())], 2))).unwrap();
    refused(&with(watched(&[(5, three.clone())], 3)), "due was");
    refused(&with(watched(&[(5, two.clone())], 3)), "left out");
    refused(&with(watched(&[], 2)), "left out");
    refused(&with(watched(&[(5, two.clone()), (6, two.clone())], 2)), "due was");
    refused(&with(watched(&[(5, three), (6, two)], 3)), "due was");
    refused(&with(watched(&[(5, change(2, "/a", Some("other")))], 2)), "it was");
    refused(&with(watched(&[(5, change(4, "/a", Some("forged")))], 4)), "no client wrote");
}

#[test]
fn a_write_without_an_answer_may_have_happened_or_not() {
    let unanswered = (0, 1, What::Unanswered { changes: vec![("/a".into(), Some("1".into()))] });
    judge(&[unanswered.clone(), (2, 3, read("/a", None))]).unwrap();
    let delivered = (2, 9, watched(&[(3, change(2, "/a", Some("1")))], 2));
    judge(&[unanswered, delivered, (4, 5, read("/a", Some((2, "1"))))]).unwrap();
}

#[test]
fn sessions_with_the_model_are_linearizable() {
    for seed in 0..20 {
        let memory = Memory::default();
        let history = concurrent_session(&memory, seed, 60);
        assert!(history.operations.len() > 200, "seed {seed}");
        check(&history).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
