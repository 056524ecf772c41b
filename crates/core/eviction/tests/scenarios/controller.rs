//! The 52 cases of Kubernetes' controller table, under the same names, as data.

use crate::table::{Case, case, check, steps};

/// One device of each kind, none of which anybody must leave; `instance` is the one that claims hold.
const SLICE: &str = "slice worker instance instance-no-schedule{example.com/taint=x:NoSchedule@0} \
                     instance-no-execute{example.com/taint=x:None@0,example.com/taint=x:NoExecute@0}";
const SLICE_TAINTED: &str = "slice worker instance{example.com/taint=something:NoExecute@0} spare";
const SLICE_TWO_TAINTS: &str = "slice worker instance{key1=a:NoExecute@0,key2=b:NoExecute@0} spare";
const SLICE_2: &str = "slice worker-2 gen=2 instance";
const CLAIM: &str = "claim my-claim device=instance owner=my-pod:1234 for=my-pod:1234";
const CLAIM_TOLERATES: &str = "claim my-claim device=instance owner=my-pod:1234 for=my-pod:1234 tolerate=-=something,Equal,NoExecute,3600";
const POD: &str = "pod my-pod uid=1234 claim=my-claim";
const POD_TEMPLATE: &str = "pod my-pod uid=1234 template=my-claim";
const RULE: &str = "rule evict driver=some-driver taint=example.com/taint=something:NoExecute@0";
const RULE_NONE: &str = "rule evict driver=some-driver taint=example.com/taint=something:None@0";

#[test]
fn table() {
    let cases: Vec<Case> =
        [untouched(), by_slices(), by_rules(), previews(), tolerated(), left_alone(), cancelled()]
            .into_iter()
            .flatten()
            .collect();
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), cases.len()), (52, 52));
    for case in cases {
        check(&case);
    }
}

fn untouched() -> Vec<Case> {
    vec![
        case("empty", &[], &[]),
        case("populate-pools", &[SLICE, SLICE_2], &[]),
        case("update-pools", &[&steps(&[SLICE_TAINTED, SLICE]), &steps(&[SLICE_2, "slice- worker-2"])], &[]),
        case("untainted-claim", &[SLICE, CLAIM], &[]),
        case("tainted-claim-through-resourceslice", &[SLICE_TAINTED, CLAIM], &[]),
        case("rule-status", &[RULE], &["0s status evict False NotStarted: "]),
        case("tainted-claim-through-rule", &[RULE, CLAIM], &["0s status evict False NotStarted: "]),
        case("no-evict-no-taint", &[SLICE, CLAIM, POD], &[]),
        case("no-evict-no-taint-update", &[&steps(&[SLICE, SLICE]), CLAIM, POD], &[]),
        case("no-evict-other-device", &["slice worker spare{a=b:NoExecute@0} instance", CLAIM, POD], &[]),
        case("ignore-none-effect", &["slice worker instance{a=b:None@0}", CLAIM, POD], &[]),
        case("ignore-unknown-effect", &["slice worker instance{a=b:SomethingElse@0}", CLAIM, POD], &[]),
    ]
}

const EVICTED: &[&str] = &["0s evict my-pod", "0s event my-pod Marking"];

fn by_slices() -> Vec<Case> {
    let group_claim = "claim my-claim device=instance owner=group/my-group:5 for=group/my-group:5";
    let unrelated = steps(&[
        SLICE_TAINTED,
        "slice worker instance{example.com/taint=something:NoExecute@0} other{a=b:NoExecute@0}",
    ]);
    vec![
        case("evict-pod-resourceclaim", &[SLICE_TAINTED, CLAIM, POD], EVICTED),
        case(
            "evict-pod-resourceclaim-podgroup",
            &[SLICE_TAINTED, group_claim, "pod my-pod uid=1234 template=my-claim group=my-group"],
            EVICTED,
        ),
        case("evict-pod-resourceclaimtemplate", &[SLICE_TAINTED, CLAIM, POD_TEMPLATE], EVICTED),
        case(
            "evict-pod-resourceclaim-again",
            &[CLAIM, POD, &steps(&[SLICE_TAINTED, "slice- worker", SLICE_TAINTED])],
            &["0s event my-pod Cancelling", "0s evict my-pod", "0s event my-pod Marking"],
        ),
        case(
            "evict-pod-after-scheduling",
            &[SLICE_TAINTED, CLAIM, &steps(&["pod my-pod uid=1234 node=- claim=my-claim", POD])],
            EVICTED,
        ),
        case(
            "evict-pod-resourceclaim-unrelated-changes",
            &[&unrelated, &steps(&[CLAIM, CLAIM]), &steps(&[POD, POD])],
            EVICTED,
        ),
        case(
            "evict-wrong-pod-replaced",
            &[SLICE_TAINTED, CLAIM, &steps(&["pod my-pod uid=other claim=my-claim", "pod- my-pod", POD])],
            EVICTED,
        ),
        case(
            "evict-wrong-resourceclaim-replaced",
            &[
                SLICE_TAINTED,
                &steps(&["claim my-claim uid=old device=instance owner=other:99 for=my-pod:1234", CLAIM]),
                POD_TEMPLATE,
            ],
            EVICTED,
        ),
    ]
}

fn by_rules() -> Vec<Case> {
    let two_claims = [
        "claim claim-a device=instance for=my-pod:1234",
        "claim claim-b device=instance-no-execute for=my-pod:1234",
        "pod my-pod uid=1234 claim=claim-a claim=claim-b",
    ];
    let early = "rule evict-instance driver=some-driver device=instance taint=a=b:NoExecute@0";
    let late =
        "rule evict-instance-no-execute driver=some-driver device=instance-no-execute taint=a=b:NoExecute@40";
    let many = [
        "claim my-claim device=instance for=my-pod:1234",
        "claim other/my-claim device=instance-2 for=my-pod-2:5678",
        POD,
        "pod other/my-pod-2 uid=5678 claim=my-claim",
        RULE,
    ];
    let many_here = [
        many[0],
        "claim claim-2 device=instance-2 for=my-pod-2:5678",
        POD,
        "pod my-pod-2 uid=5678 claim=claim-2",
        RULE,
    ];
    vec![
        case(
            "evict-pod-rule",
            &[RULE, CLAIM, POD],
            &[
                "0s evict my-pod",
                "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "0s event my-pod Marking",
                "0s status evict False Completed: 1 pod evicted since the rule was created.",
            ],
        ),
        case(
            "evict-pod-rule-later",
            &[RULE, CLAIM_TOLERATES, POD],
            &[
                "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "3600s evict my-pod",
                "3600s event my-pod Marking",
                "3600s status evict False Completed: 1 pod evicted since the rule was created.",
            ],
        ),
        case(
            "evict-many-pods-many-namespaces",
            &many,
            &[
                "0s evict my-pod",
                "0s evict my-pod-2",
                "0s status evict True PodsPendingEviction: 2 pods need to be evicted in 2 different namespaces.",
                "0s event my-pod Marking",
                "0s event my-pod-2 Marking",
                "0s status evict False Completed: 2 pods evicted since the rule was created.",
            ],
        ),
        case(
            "evict-many-pods-same-namespace",
            &many_here,
            &[
                "0s evict my-pod",
                "0s evict my-pod-2",
                "0s status evict True PodsPendingEviction: 2 pods need to be evicted in 1 namespace.",
                "0s event my-pod Marking",
                "0s event my-pod-2 Marking",
                "0s status evict False Completed: 2 pods evicted since the rule was created.",
            ],
        ),
        case(
            "multiple-claims-same-rule",
            &[RULE, two_claims[0], two_claims[1], two_claims[2]],
            &[
                "0s evict my-pod",
                "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "0s event my-pod Marking",
                "0s status evict False Completed: 1 pod evicted since the rule was created.",
            ],
        ),
        // Kubernetes counts the pod for both rules; here it is counted for the one that was due.
        case(
            "multiple-claims-different-rules-order-1",
            &[early, late, two_claims[0], two_claims[1], two_claims[2]],
            &DIFFERENT_RULES,
        ),
        case(
            "multiple-claims-different-rules-order-2",
            &[late, early, two_claims[0], two_claims[1], two_claims[2]],
            &[
                "0s evict my-pod",
                "0s status evict-instance-no-execute True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "0s status evict-instance True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "0s event my-pod Marking",
                "0s status evict-instance-no-execute False NotStarted: ",
                "0s status evict-instance False Completed: 1 pod evicted since the rule was created.",
            ],
        ),
    ]
}

const DIFFERENT_RULES: [&str; 6] = [
    "0s evict my-pod",
    "0s status evict-instance True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
    "0s status evict-instance-no-execute True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
    "0s event my-pod Marking",
    "0s status evict-instance False Completed: 1 pod evicted since the rule was created.",
    "0s status evict-instance-no-execute False NotStarted: ",
];

fn previews() -> Vec<Case> {
    let many = ["claim claim-1 device=instance for=my-pod:1234", "claim claim-3 device=instance-3"];
    vec![
        case(
            "none-pod-rule",
            &[RULE_NONE, SLICE, CLAIM, POD],
            &["0s status evict False NoEffect: 3 published devices selected. 1 allocated device selected. \
               1 pod would be evicted in 1 namespace if the effect was NoExecute."],
        ),
        case(
            "none-many-pods-many-namespaces",
            &[
                RULE_NONE,
                &steps(&many),
                "claim other/claim-2 device=instance-2 for=my-pod-2:5678",
                "pod my-pod uid=1234 claim=claim-1",
                "pod other/my-pod-2 uid=5678 claim=claim-2",
            ],
            &["0s status evict False NoEffect: 0 published devices selected. 3 allocated devices selected. \
               2 pods would be evicted in 2 different namespaces if the effect was NoExecute."],
        ),
        case(
            "none-many-pods-same-namespace",
            &[
                RULE_NONE,
                &steps(&many),
                "claim claim-2 device=instance-2 for=my-pod-2:5678",
                "pod my-pod uid=1234 claim=claim-1",
                "pod my-pod-2 uid=5678 claim=claim-2",
            ],
            &["0s status evict False NoEffect: 0 published devices selected. 3 allocated devices selected. \
               2 pods would be evicted in 1 namespace if the effect was NoExecute."],
        ),
        case(
            "none-podgroup-rule",
            &[
                RULE_NONE,
                SLICE,
                "claim my-claim device=instance owner=group/my-group:5 for=group/my-group:5",
                "pod my-pod uid=1234 template=my-claim group=my-group",
            ],
            &["0s status evict False NoEffect: 3 published devices selected. 1 allocated device selected. \
               1 pod would be evicted in 1 namespace if the effect was NoExecute."],
        ),
    ]
}

fn tolerated() -> Vec<Case> {
    let claim = |tolerations: &str| format!("{CLAIM} {tolerations}");
    let key = "example.com/taint";
    let changed = steps(&[SLICE_TAINTED, "slice worker instance{example.com/taint=else:NoExecute@0} spare"]);
    let two_rules = [
        "rule rule-1 driver=some-driver taint=key1=a:NoExecute@0",
        "rule rule-2 driver=some-driver taint=key2=b:NoExecute@0",
    ];
    vec![
        case(
            "evict-pod-later",
            &[SLICE_TAINTED, CLAIM_TOLERATES, POD],
            &["3600s evict my-pod", "3600s event my-pod Marking"],
        ),
        case(
            "evict-pod-later-many",
            &[
                SLICE_TAINTED,
                &claim(&format!(
                    "tolerate=other,Exists,NoExecute,20 tolerate={key},Exists,NoExecute,60 tolerate={key},Exists,NoExecute,30"
                )),
                POD,
            ],
            &["30s evict my-pod", "30s event my-pod Marking"],
        ),
        case(
            "evict-pod-toleration-mismatch",
            &[SLICE_TAINTED, &claim("tolerate=other,Exists,NoExecute,-"), POD],
            EVICTED,
        ),
        case(
            "no-evict-pod-toleration-forever",
            &[SLICE_TAINTED, &claim(&format!("tolerate={key},Exists,NoExecute,-")), POD],
            &[],
        ),
        case(
            "no-evict-pod-toleration-forever-many",
            &[
                SLICE_TAINTED,
                &claim(&format!("tolerate={key},Exists,NoExecute,60 tolerate={key},Exists,NoExecute,-")),
                POD,
            ],
            &[],
        ),
        case(
            "evict-pod-partial-toleration",
            &[SLICE_TWO_TAINTS, &claim("tolerate=key1,Exists,NoExecute,-"), POD],
            EVICTED,
        ),
        case(
            "evict-pod-many-taints",
            &[
                two_rules[0],
                two_rules[1],
                SLICE_TWO_TAINTS,
                &claim("tolerate=key1,Exists,NoExecute,60 tolerate=key2,Exists,NoExecute,30"),
                POD,
            ],
            // Counted for rule-2, which was due; rule-1 has nobody left to wait for.
            &[
                "0s status rule-1 True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "0s status rule-2 True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
                "30s evict my-pod",
                "30s event my-pod Marking",
                "30s status rule-1 False NotStarted: ",
                "30s status rule-2 False Completed: 1 pod evicted since the rule was created.",
            ],
        ),
        case("eviction-change-taint", &[&changed, CLAIM_TOLERATES, POD], EVICTED),
    ]
}

fn left_alone() -> Vec<Case> {
    vec![
        case(
            "no-evict-pod-in-podgroup-without-claim",
            &[
                SLICE_TAINTED,
                "claim my-claim device=instance owner=group/my-group:5 for=group/my-group:5",
                "pod my-pod uid=1234 group=my-group",
            ],
            &[],
        ),
        case(
            "no-evict-pod-not-scheduled",
            &[SLICE_TAINTED, CLAIM, "pod my-pod uid=1234 node=- claim=my-claim"],
            &[],
        ),
        case(
            "no-evict-pod-resourceclaimtemplate-no-status",
            &[SLICE_TAINTED, CLAIM, "pod my-pod uid=1234 template=?"],
            &[],
        ),
        case(
            "no-evict-pod-resourceclaimtemplate-no-claim",
            &[SLICE_TAINTED, CLAIM, "pod my-pod uid=1234 template=-"],
            &[],
        ),
        case("no-evict-wrong-pod", &[SLICE_TAINTED, CLAIM, "pod my-pod uid=other claim=my-claim"], &[]),
        case(
            "no-evict-wrong-resourceclaim",
            &[SLICE_TAINTED, "claim my-claim device=instance owner=other:99 for=my-pod:1234", POD_TEMPLATE],
            &[],
        ),
    ]
}

const CANCELLED: &[&str] = &["0s event my-pod Cancelling"];

fn cancelled() -> Vec<Case> {
    let reduced = "slice worker instance{example.com/taint=something:NoSchedule@0}";
    let moved = "slice worker-new pool=worker gen=2 instance";
    let then = |then: &str| steps(&[SLICE_TAINTED, then]);
    vec![
        case("cancel-eviction-remove-taint", &[CLAIM_TOLERATES, POD, &then(SLICE)], CANCELLED),
        case("cancel-eviction-reduce-taint", &[CLAIM_TOLERATES, POD, &then(reduced)], CANCELLED),
        case("cancel-eviction-remove-taint-in-new-slice", &[CLAIM_TOLERATES, POD, &then(moved)], CANCELLED),
        case("cancel-eviction-remove-slice", &[CLAIM_TOLERATES, POD, &then("slice- worker")], CANCELLED),
        case(
            "cancel-eviction-pod-deletion",
            &[SLICE_TAINTED, CLAIM_TOLERATES, &steps(&[POD, "pod- my-pod"])],
            &[],
        ),
        case(
            "no-evict-resourceclaim-deallocated",
            &[
                SLICE_TAINTED,
                POD,
                &steps(&[CLAIM_TOLERATES, "claim my-claim owner=my-pod:1234 for=my-pod:1234"]),
            ],
            CANCELLED,
        ),
        case(
            "no-evict-resourceclaim-deleted",
            &[SLICE_TAINTED, POD, &steps(&[CLAIM_TOLERATES, "claim- my-claim"])],
            CANCELLED,
        ),
    ]
}
