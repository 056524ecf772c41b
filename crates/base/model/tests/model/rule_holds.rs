//! When a rule needs approval, and when it has no effect before it has one.

use lazaret_model::{
    Approval, ApproverRefusal, Approvers, Author, Condition, ConditionStatus, ConfirmAbove, DeviceSelector,
    DeviceTaintRule, Impact, Review, RuleRequest, Share, Taint,
};

fn impact(pods: u64, namespaces: u64, devices: u64) -> Impact {
    Impact { pods, namespaces, devices }
}

#[test]
fn a_limit_is_exceeded_by_more_and_only_where_it_is_set() {
    let none = ConfirmAbove::default();
    assert!(!none.is_exceeded_by(impact(u64::MAX, u64::MAX, u64::MAX), 1));
    let all = ConfirmAbove { pods: Some(10), namespaces: Some(2), devices: Some(Share::Percent(10)) };
    for (reached, total, expected) in [
        (impact(10, 2, 10), 100, false),
        (impact(11, 0, 0), 100, true),
        (impact(0, 3, 0), 100, true),
        (impact(0, 0, 11), 100, true),
        // 10% of 9 devices is one: a limit of none would hold every rule.
        (impact(0, 0, 1), 9, false),
        (impact(0, 0, 2), 9, true),
        (impact(0, 0, 0), 0, false),
    ] {
        assert_eq!(all.is_exceeded_by(reached, total), expected, "{reached} of {total}");
    }
    assert_eq!(format!("{all}"), "10 pods, 2 namespaces, 10% of devices");
    assert_eq!(format!("{}", impact(1, 1, 2)), "1 pod in 1 namespace on 2 devices");
}

#[test]
fn an_approval_covers_a_tenth_more_than_was_seen() {
    let approval = Approval { seen: impact(10, 1, 20), ..Approval::default() };
    for (now, expected) in [
        (impact(10, 1, 20), true),
        (impact(11, 1, 22), true),
        (impact(0, 0, 0), true),
        (impact(12, 1, 20), false),
        (impact(10, 2, 20), false),
        (impact(10, 1, 23), false),
    ] {
        assert_eq!(approval.covers(now), expected, "{now}");
    }
    let none = Approval::default();
    assert!(none.covers(impact(0, 0, 0)) && !none.covers(impact(1, 0, 0)));
    assert!(Approval { seen: impact(u64::MAX, u64::MAX, u64::MAX), ..none }.covers(impact(5, 5, 5)));
}

/// A second person is one of two that are known, and neither is a controller.
#[test]
fn no_author_is_never_a_second_person() {
    let health = "system:lazaret:device-health";
    let unknown = Some(ApproverRefusal::Unknown);
    for (author, by, expected) in [
        (Author::User(Some("ada")), Some("bob"), None),
        (Author::User(Some("ada")), Some("ada"), Some(ApproverRefusal::Author("ada"))),
        (Author::User(None), Some("bob"), unknown),
        (Author::User(Some("")), Some("bob"), unknown),
        (Author::User(Some("ada")), Some(""), unknown),
        (Author::User(Some("")), Some(""), unknown),
        (Author::User(Some("ada")), None, unknown),
        (Author::User(Some(health)), Some("bob"), Some(ApproverRefusal::Made(health))),
        (Author::User(Some("system:lazaret")), Some("bob"), Some(ApproverRefusal::Made("system:lazaret"))),
        (Author::User(Some("system:lazarus")), Some("bob"), None),
        (Author::User(Some("ada")), Some(health), Some(ApproverRefusal::Program(health))),
        (Author::Driver, Some("bob"), None),
        (Author::Driver, Some(""), unknown),
        (Author::Driver, Some(health), Some(ApproverRefusal::Program(health))),
        (Author::Driver, Some("system:node:n"), Some(ApproverRefusal::Program("system:node:n"))),
    ] {
        assert_eq!(Approvers::Different.refusal(author, by), expected, "{author:?}, {by:?}");
        assert_eq!(Approvers::Anyone.refusal(author, by), None, "{author:?}, {by:?}");
    }
}

#[test]
fn a_rule_is_held_by_its_status_or_while_it_waits_for_a_decision() {
    let said = |status: ConditionStatus, observed_generation: i64| Condition {
        kind: DeviceTaintRule::HELD.into(),
        status,
        observed_generation,
        ..Condition::default()
    };
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    for (condition, is_required, expected) in [
        (None, false, false),
        (None, true, true),
        (Some(said(yes, 2)), false, true),
        (Some(said(no, 2)), true, false),
        (Some(said(ConditionStatus::Unknown, 2)), false, true),
        // Of an older spec.
        (Some(said(no, 1)), false, false),
        (Some(said(no, 1)), true, true),
        (Some(said(yes, 1)), false, true),
    ] {
        let rule = DeviceTaintRule {
            generation: 2,
            selector: Some(DeviceSelector::default()),
            conditions: condition.clone().into_iter().collect(),
            review: Some(Box::new(Review { is_required, ..Review::default() })),
            ..DeviceTaintRule::default()
        };
        assert_eq!(rule.is_held(), expected, "{condition:?}, required: {is_required}");
        assert_eq!(rule.active_selector().is_none(), expected);
    }
}

/// A drain keeps new pods off and evicts later: the approval of its request is good for both, for the same devices and the same taint.
#[test]
fn the_approval_of_a_request_outlives_a_change_of_the_effect_and_nothing_else() {
    let of = |device: &str, key: &str, generation: i64, request: &str| DeviceTaintRule {
        uid: "u".into(),
        generation,
        selector: Some(DeviceSelector { device: Some(device.into()), ..DeviceSelector::default() }),
        taint: Taint { key: key.into(), ..Taint::default() },
        review: Some(Box::new(Review {
            request: Some(RuleRequest { id: request.into(), evicts: true, ..RuleRequest::default() }),
            ..Review::default()
        })),
        ..DeviceTaintRule::default()
    };
    let seen = of("d0", "k", 1, "drain");
    let approval = Approval {
        uid: "u".into(),
        generation: 1,
        request: Some("drain".into()),
        subject: seen.subject(),
        ..Approval::default()
    };
    for (rule, expected) in [
        (seen, true),
        (of("d0", "k", 2, "drain"), true),
        (of("d1", "k", 2, "drain"), false),
        (of("d0", "other", 2, "drain"), false),
        (of("d0", "k", 2, "another"), false),
        (DeviceTaintRule { uid: "v".into(), ..of("d0", "k", 2, "drain") }, false),
    ] {
        assert_eq!(approval.is_about(&rule), expected, "{rule:?}");
    }
    let without = Approval { request: None, subject: None, ..approval };
    assert!(without.is_about(&of("d9", "k", 1, "drain")) && !without.is_about(&of("d0", "k", 2, "drain")));
}
