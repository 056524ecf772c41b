//! A taint or value that a gate turns off is as if it had never been set.

use alloc::{vec, vec::Vec};

use lazaret_model::{AttrValue, Text};

use super::build::*;
use crate::{Fleet, Gates, Input};

fn everything() -> Vec<Input> {
    let mut values = patch("values", 1, "d/p/*", &["patched:NoExecute"]);
    values.patch.attributes =
        [(Text::from("model"), Some(AttrValue::String("patched".into())))].into_iter().collect();
    vec![
        slice("s", "d/p", vec![device("a", &["model=published"], &["own:NoExecute"])]).into(),
        taint_slice("t", "d/p", &["a sliced:NoExecute"]).into(),
        values.into(),
        rule("r", Some(names("d/p/a")), "ruled:NoExecute").into(),
    ]
}

fn seen(gates: Gates) -> (Vec<Text>, AttrValue, bool) {
    let mut fleet = Fleet::with_gates(gates);
    everything().into_iter().for_each(|input| fleet.apply(input));
    let device = fleet.device(&id("d/p/a")).unwrap();
    let keys = device.taints().map(|taint| taint.taint.key.clone()).collect();
    let model = device.attributes().next().unwrap().2.clone();
    (keys, model, fleet.rule("r").is_some())
}

#[test]
fn each_gate_takes_its_own_away() {
    let on = Gates::default();
    let taints_off = Gates { taints: false, ..on };
    let rules_off = Gates { rules: false, ..on };
    let values_off = Gates { patched_values: false, ..on };
    let all = &["own", "sliced", "patched", "ruled"][..];
    for (gates, keys, model, rule) in [
        (on, all, "patched", true),
        (taints_off, &[][..], "patched", false),
        (rules_off, &all[..3], "patched", false),
        (values_off, all, "published", true),
        (Gates { taints: false, rules: false, patched_values: false }, &[], "published", false),
    ] {
        let expected =
            (keys.iter().map(|key| Text::from(*key)).collect(), AttrValue::String(model.into()), rule);
        assert_eq!(seen(gates), expected, "{gates:?}");
    }
}

/// A list that leaves a rule out must not trip over rules that were never taken in.
#[test]
fn lists_of_what_is_off_are_empty_lists() {
    let mut fleet = Fleet::with_gates(Gates { rules: false, ..Gates::default() });
    fleet.relist(crate::Kind::Rule, vec![rule("r", None, "k:NoExecute").into()]);
    fleet.relist(crate::Kind::Rule, Vec::new());
    fleet.apply(Input::RuleGone("r".into()));
    assert!(fleet.rule("r").is_none() && fleet.take_changes().rules.is_empty());
}
