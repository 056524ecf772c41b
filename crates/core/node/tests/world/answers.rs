//! The node's reports about claims that a controller waits for, and the claims that it prepares meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_node::{Action, ClaimView, Input, Life, Outcome, SeenNode};

use crate::script::{Script, claim, pod};

const DRIVER: &str = "d.example.com";

fn is_report(action: &Action) -> bool {
    matches!(action, Action::Report(_))
}

fn seen(awaiting: &[&str], unprepared: &[&str]) -> Input {
    let all = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
    Input::Node(SeenNode { reports: true, awaiting: all(awaiting), unprepared: all(unprepared) })
}

/// A node that is asked about a claim that is not prepared, and has sent its answer, which is taken.
fn asked() -> (Script, BTreeMap<String, ClaimView>, u64) {
    let mut script = Script::with_driver(DRIVER);
    script.hear(Input::Pods(Vec::new()));
    let claims = BTreeMap::from([("a".to_owned(), claim("a", DRIVER, "gpu-0", &["p"]))]);
    script.work(&claims);
    script.hear(seen(&["a-uid"], &[]));
    let (id, report) = script.take("Report", is_report);
    assert_eq!(report, Action::Report(["a-uid".to_owned()].into()));
    (script, claims, id)
}

/// The claim was given anew to another pod: a Node that still says that nothing is prepared for it would answer the next question before it is asked.
#[test]
fn a_claim_is_not_prepared_while_the_node_says_that_it_is_unprepared() {
    let (mut script, claims, id) = asked();
    script.answer(id, Outcome::Done);
    script.hear(seen(&[], &["a-uid"]));
    let (id, report) = script.take("Report", is_report);
    assert_eq!(report, Action::Report(BTreeSet::new()), "it is not asked any more");
    script.hear(Input::Pod(pod("p", &["a"], Life::Wanted)));
    assert_eq!(script.work(&claims), [""; 0], "the answer is not taken back yet");
    script.answer(id, Outcome::Done);
    script.pass(120_000);
    assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"]);
}

/// The question is withdrawn while the answer is in flight, which may arrive after that.
#[test]
fn a_claim_is_not_prepared_while_an_answer_about_it_is_in_flight() {
    for outcome in [Outcome::Done, Outcome::Failed("timed out".into())] {
        let (mut script, claims, id) = asked();
        script.hear(seen(&[], &[]));
        script.hear(Input::Pod(pod("p", &["a"], Life::Wanted)));
        assert_eq!(script.work(&claims), [""; 0], "the answer may arrive");
        script.answer(id, outcome);
        script.pass(120_000);
        let (id, report) = script.take("Report", is_report);
        assert_eq!(report, Action::Report(BTreeSet::new()), "it is taken back, whether it arrived or not");
        assert_eq!(script.work(&claims), [""; 0]);
        script.answer(id, Outcome::Done);
        script.pass(120_000);
        assert_eq!(script.work(&claims), ["v1.DRAPlugin Prepare d.example.com a"]);
    }
}
