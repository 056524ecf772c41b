//! Alerts that fire last until they are resolved, or until they were not repeated for long.

use lazaret_lifecycle::{Notice, Policy, Report, Signal, Source, Stage, Target, WriteKind};
use lazaret_model::Text;

use crate::{
    cluster::{Leader, Server},
    world::{MINUTE, at, device, policy, rule},
};

fn alert(until: i64) -> Report {
    Report {
        name: "alert-1".into(),
        uid: "u".into(),
        until: Some(at(until)),
        signal: Signal {
            device: device("gpu-0"),
            key: "hot".into(),
            value: "".into(),
            source: Source::Alert,
            at: at(0),
            lasts: true,
            message: "".into(),
        },
    }
}

fn begin(server: &Server, now: i64) -> Leader {
    let rules = vec![rule("hot", r#"signal.key == "hot""#, Target::Quarantined)];
    Leader::begin(server, now, Policy { rules, recovery: None, ..policy() })
}

fn stage(leader: &Leader) -> Option<Stage> {
    leader.core.lifecycle().incidents().next().map(|incident| incident.stage)
}

/// The objects that are to be deleted.
fn dropped(leader: &mut Leader) -> Vec<Text> {
    leader.hear(Notice::Tick);
    let all = core::iter::from_fn(|| leader.core.poll_effect());
    all.filter_map(|write| match write.kind {
        WriteKind::DropReport(name, _) => Some(name),
        _ => None,
    })
    .collect()
}

#[test]
fn an_alert_whose_end_is_lost_is_over_when_it_is_not_repeated() {
    let mut server = Server::default();
    let mut leader = begin(&server, 0);
    leader.hear(Notice::Report(alert(60 * MINUTE)));
    leader.work(&mut server, |_| false);
    assert_eq!(stage(&leader), Some(Stage::Quarantined));
    leader.now = 50 * MINUTE;
    leader.hear(Notice::Report(alert(110 * MINUTE)));
    leader.now = 109 * MINUTE;
    assert!(dropped(&mut leader).is_empty(), "it fires on");
    assert_eq!(leader.core.next_wake().map(|wake| wake.at <= at(110 * MINUTE)), Some(true));
    leader.now = 110 * MINUTE;
    assert_eq!(dropped(&mut leader), ["alert-1"]);
    leader.now = 125 * MINUTE;
    leader.work(&mut server, |kind| matches!(kind, WriteKind::DropReport(..)));
    assert_eq!(stage(&leader), None, "calm for 15 minutes");
}

#[test]
fn an_alert_that_is_over_by_then_is_no_signal_to_a_new_leader() {
    let server = Server::default();
    let mut leader = begin(&server, 60 * MINUTE);
    leader.hear(Notice::Report(alert(MINUTE)));
    assert_eq!(dropped(&mut leader), ["alert-1"]);
    assert_eq!(stage(&leader), None);
    leader.hear(Notice::ReportGone("alert-1".into()));
    leader.now += MINUTE;
    assert!(dropped(&mut leader).is_empty());
}
