//! How.

use lazaret_replacement::{Spec, Strategy};

use crate::{
    api::{key, option, quick, spec},
    runner::Play,
};

#[test]
fn a_replica_sets_pod_is_released_and_goes_when_the_new_one_is_ready() {
    let mut play = Play::with(3, 2);
    play.api.ready_secs = 7;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    let old = play.on("n0")[0].clone();
    play.until(27);
    let released = &play.api.pods[&old.key].pod;
    assert_eq!((released.owner.is_none(), released.labels.len()), (true, 1));
    assert_eq!(play.api.pods.len(), 3, "the old one runs on");
    let status = play.status("p");
    assert_eq!(status.replacements.len(), 1);
    let new = status.pods[0].replacement.clone().unwrap();
    assert!(play.api.pods[&key(&new)].pod.created > old.created);
    assert_eq!(play.done, [format!("26 release {}", old.key.name)]);
    play.until(40);
    assert_eq!(play.done[1..], [format!("34 delete {}", old.key.name)]);
    assert_eq!(play.api.pods.len(), 2);
}

#[test]
fn a_stateful_sets_pod_is_evicted_first() {
    let mut play = Play::stateful(2, 1);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(27);
    assert_eq!(play.done, ["26 evict db-0"]);
    play.until(40);
    let status = play.status("p");
    assert_eq!((status.totals.replaced, status.replacements.len()), (1, 0));
    assert_eq!(play.on("n1").len(), 1);
}

#[test]
fn a_budget_holds_an_eviction_back_and_lets_others_go() {
    let mut play = Play::stateful(3, 2);
    play.api.budget = Some(0);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.api.taint("n1", "a", None);
    play.until(30);
    assert_eq!(play.done[..2], ["26 evict db-0", "26 evict db-1"], "the slot goes to the next");
    assert_eq!(play.status("p").pods[0].message, "held back by a disruption budget");
    assert_eq!(play.status("p").totals.in_flight, 0);
    play.api.budget = None;
    play.until(80);
    assert_eq!(play.status("p").totals.replaced, 2);
}

#[test]
fn a_status_says_no_longer_that_a_budget_holds_a_pod_than_it_does() {
    let mut play = Play::stateful(3, 2);
    play.api.ready_secs = 10_000;
    play.api.budget = Some(0);
    // Both select both pods.
    play.api.set_policy("p", quick());
    play.api.set_policy("q", quick());
    play.api.taint("n0", "a", None);
    play.until(10);
    play.api.taint("n1", "a", None);
    play.until(34);
    assert_eq!(play.done, ["26 evict db-0", "31 evict db-1"]);
    for policy in ["p", "q"] {
        assert!(play.condition(policy, "Progressing").starts_with("True HeldByBudget"));
    }
    play.api.budget = Some(1);
    play.until(40);
    assert_eq!(play.done[2..], ["36 evict db-0"], "it is not Ready again for long");
    assert_eq!(play.condition("q", "Progressing").split(':').next(), Some("True HeldByBudget"));
    play.until(60);
    assert_eq!(play.condition("q", "Progressing").split(':').next(), Some("True Due"), "there is no slot");
}

#[test]
fn a_bare_pod_gets_a_copy_first() {
    let mut play = Play::bare(false);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(40);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    let copy = play.done[0].strip_prefix("26 copy to ").unwrap().to_owned();
    assert!(copy.starts_with("lone-r"), "{copy}");
    assert!(play.done[1].ends_with("delete lone"));
    assert_eq!(play.api.pods.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), [copy.as_str()]);
    // A copy is replaced like any other pod, under a name of the same length.
    play.api.untaint("n0", "a");
    play.api.taint("n1", "a", None);
    play.until(100);
    let again = &play.api.pods.values().next().unwrap().pod.key.name;
    assert_eq!((again.len(), again.starts_with("lone-r"), **again == *copy), (copy.len(), true, false));
}

#[test]
fn a_bare_pod_that_cannot_have_two_waits_as_a_gated_copy() {
    let mut play = Play::bare(true);
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(60);
    let verbs: Vec<&str> = play.done.iter().map(|done| done.split(' ').nth(1).unwrap()).collect();
    assert_eq!(verbs, ["copy", "evict", "ungate"]);
    assert_eq!(play.status("p").totals.replaced, 1);
    assert_eq!(play.on("n1").len(), 1);
}

#[test]
fn recreate_is_for_all_if_the_policy_says_so() {
    let mut play = Play::with(3, 2);
    play.api.set_policy("p", Spec { strategy: Strategy::Recreate, ..quick() });
    play.api.taint("n0", "a", None);
    play.until(60);
    assert_eq!(play.done.len(), 1);
    assert!(play.done[0].starts_with("26 evict web-"));
    assert_eq!(play.status("p").totals.replaced, 1);
}

#[test]
fn what_is_not_ready_in_time_is_told_and_not_begun_again() {
    let mut play = Play::with(2, 2);
    play.api.set_policy("p", Spec { ready_secs: 60, ..quick() });
    // No node is left for the new pod.
    play.api.taint("n0", "a", None);
    play.api.taint("n1", "b", None);
    play.until(500);
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
    assert_eq!((play.events("TaintReplacementOverdue"), play.status("p").totals.overdue), (2, 1));
    assert!(play.condition("p", "Degraded").starts_with("True ReplacementNotReady"));
    assert_eq!(play.machine.figures().in_flight, 1, "it keeps its slot");
    play.restart();
    play.until(510);
    assert_eq!(play.events("TaintReplacementOverdue"), 2, "told once");
    // Room at last: it is finished as if nothing had been.
    play.api.untaint("n1", "b");
    play.until(520);
    assert_eq!((play.status("p").totals.replaced, play.done.len()), (1, 2));
    assert_eq!(play.condition("p", "Degraded"), "False AsExpected: Nothing is in the way");
}

#[test]
fn once_a_replacement_exists_it_is_finished_even_if_taint_and_policy_go() {
    let mut play = Play::with(3, 2);
    play.api.ready_secs = 30;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(28);
    play.api.untaint("n0", "a");
    play.until(30);
    assert_eq!(play.lines("p"), ["n0 a NodeTaintReplacing"]);
    play.api.remove_policy("p");
    play.until(32);
    play.restart();
    play.until(80);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
    assert_eq!(play.api.pods.len(), 2);
}

#[test]
fn a_replacement_of_which_no_object_tells_takes_no_slot() {
    for (strategy, is_bare) in
        [(Strategy::ReplaceFirst, false), (Strategy::Recreate, false), (Strategy::ReplaceFirst, true)]
    {
        let mut begun = Vec::new();
        for is_new_leader in [false, true] {
            let mut play = Play::with(3, if is_bare { 0 } else { 2 });
            for name in ["lone", "next"].iter().filter(|_| is_bare) {
                play.api.add_bare(play.now, name, false, false);
            }
            play.until(10);
            let all = || Spec { strategy, max_concurrent: 1, ..spec() };
            play.api.set_policy("p", Spec { node_options: vec![option("b", 0)], ..all() });
            play.api.set_policy("q", Spec { node_options: vec![option("a", 0)], ..all() });
            play.api.ready_secs = 10_000;
            play.api.taint("n0", "a", None);
            play.until(25);
            let old = play.on("n0");
            for pod in &old {
                play.api.remove(&pod.key);
            }
            play.until(30);
            assert_eq!(play.machine.in_flight().count(), 1, "the new pod is not Ready");
            play.api.remove_policy("q");
            play.api.taint("n1", "b", None);
            if is_new_leader {
                play.restart();
            }
            play.until(60);
            begun.push(play.done.len());
        }
        assert_eq!(begun[0], begun[1], "{strategy:?}: a new leader does the same");
        assert!(begun[0] > 1, "{strategy:?}");
    }
}

#[test]
fn an_owner_that_wants_no_other_does_not_hold_the_old_pod() {
    let mut play = Play::with(3, 2);
    play.api.ready_secs = 1_000;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(28);
    play.api.sets[0].replicas = 1;
    play.api.log.push(crate::api::Changed::Set(key("web")));
    play.until(40);
    assert_eq!(play.done.len(), 2, "{:?}", play.done);
}

#[test]
fn a_copy_that_a_user_deleted_is_not_made_again_by_the_next_leader() {
    let mut play = Play::bare(false);
    play.api.ready_secs = 1_000;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(40);
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
    let copy = play.api.pods.keys().find(|pod| pod.name != "lone").unwrap().clone();
    play.api.remove(&copy);
    play.until(60);
    play.restart();
    play.until(200);
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
}

#[test]
fn a_pod_that_ended_after_its_release_is_counted_once_however_many_leaders_come() {
    let mut play = Play::with(3, 2);
    play.api.ready_secs = 30;
    play.api.set_policy("p", quick());
    play.api.taint("n0", "a", None);
    play.until(28);
    assert_eq!(play.done.len(), 1, "{:?}", play.done);
    let mut old = play.api.pods.values().find(|live| live.pod.mark.is_some()).unwrap().clone();
    (old.pod.finished, old.pod.ready) = (true, false);
    play.api.put(old);
    play.until(80);
    assert_eq!(play.status("p").totals.replaced, 1);
    for leader in 1..4 {
        play.restart();
        play.until(80 + leader * 20);
        let totals = play.status("p").totals;
        assert_eq!((totals.replaced, totals.in_flight), (1, 0));
    }
}
