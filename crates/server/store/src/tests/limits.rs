//! Rules that a transaction can break on its own.

use crate::{Expect, Op, Options, Store, TxnError, TxnInvalid, TxnLimits, Value};

#[test]
fn a_transaction_that_breaks_a_rule_changes_nothing() {
    let txn = TxnLimits { ops_max: 3, bytes_max: 100, key_bytes_max: 10 };
    let options = Options { txn, ..Options::default() };
    let store = Store::ephemeral(options).unwrap();
    let many = (0..4).map(|n| Op::put(format!("/{n}"), "")).collect();
    let cases: [(Vec<Op>, TxnInvalid); 6] = [
        (vec![], TxnInvalid::Empty),
        (vec![Op::put("", "x")], TxnInvalid::EmptyKey),
        (vec![Op::put("/0123456789", "x")], TxnInvalid::KeyTooLong { bytes: 11, max: 10 }),
        (many, TxnInvalid::TooManyOps { ops: 4, max: 3 }),
        (vec![Op::put("/a", vec![0; 99])], TxnInvalid::TooLarge { bytes: 101, max: 100 }),
        (vec![Op::put("/a", "1"), Op::check("/a", Expect::Any)], TxnInvalid::RepeatedKey("/a".into())),
    ];
    for (ops, expected) in cases {
        match store.txn_blocking(ops) {
            Err(TxnError::Invalid(invalid)) => assert_eq!(invalid, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert_eq!(store.revision(), 1);
}

#[test]
fn a_stamped_value_carries_the_revision_it_is_stored_at() {
    let store = Store::ephemeral(Options::default()).unwrap();
    let stamped = || Value::Stamped { before: r#"{"rv":""#.into(), after: r#""}"#.into() };
    let committed = store.txn_blocking(vec![
        Op::create("/a", stamped()),
        Op::check("/c", Expect::Absent),
        Op::create("/b", stamped()),
    ]);
    let committed = committed.unwrap();
    assert_eq!(committed.revision, 3);
    assert!(committed.events[1].is_none(), "a check changes nothing");
    assert_eq!(store.get("/a").unwrap().value, r#"{"rv":"2"}"#);
    assert_eq!(store.get("/b").unwrap().value, r#"{"rv":"3"}"#);
}

#[test]
fn a_conflict_tells_what_is_there() {
    let store = Store::ephemeral(Options::default()).unwrap();
    store.txn_blocking(vec![Op::create("/a", "1")]).unwrap();
    let error = store.txn_blocking(vec![Op::put("/b", "x"), Op::create("/a", "2")]).unwrap_err();
    assert_eq!(error.to_string(), "/a changed: it is at revision 2");
    assert!(matches!(error, TxnError::Conflict { op: 1, current: Some(item), .. } if item.value == "1"));
    let error = store.txn_blocking(vec![Op::delete("/b", 7)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/b changed: it does not exist",
        "nothing of the failed transaction is there"
    );
}
