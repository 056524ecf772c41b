//! Rules by class and by expression, and patches: the table of Kubernetes' tracker, as far as it knew them, under the
//! names it had, told to its end: who leaves, and what the rule's status says. Then what was never there.

use crate::table::{Case, case, check, steps};

const MODELS: &str = "slice worker instance[model=big] other[model=small] plain";
const CLAIM: &str = "claim my-claim device=instance for=my-pod:1234";
const OTHER: &str = "claim other-claim device=other for=other-pod:5678";
const PLAIN: &str = "claim plain-claim device=plain for=plain-pod:9";
const POD: &str = "pod my-pod uid=1234 claim=my-claim";
const OTHER_POD: &str = "pod other-pod uid=5678 claim=other-claim";
const PLAIN_POD: &str = "pod plain-pod uid=9 claim=plain-claim";
const BIG: &str = r#"cel=device.attributes["some-driver"].?model.orValue("")=="big""#;
const STRICTLY_BIG: &str = r#"cel=device.attributes["some-driver"].model=="big""#;
const ROOMY: &str = r#"cel=device.capacity["some-driver"].memory.compareTo(quantity("40"))>=0"#;

fn evict(selector: &str) -> String {
    format!("rule evict {selector} taint=k=v:NoExecute@0")
}

fn class(selector: &str) -> String {
    format!("class big {selector}")
}

/// `my-pod` alone, by a rule that has nothing to complain of.
const MINE_ALONE: &[&str] = &[
    "0s evict my-pod",
    "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.",
    "0s event my-pod Marking",
    "0s status evict False Completed: 1 pod evicted since the rule was created.",
];
const NOT_STARTED: &[&str] = &["0s status evict False NotStarted: "];
const NO_RULE: &[&str] = &["0s evict my-pod", "0s event my-pod Marking"];

#[test]
fn table() {
    for case in [of_the_tracker(), by_class(), by_patch(), by_patched_values()].into_iter().flatten() {
        check(&case);
    }
}

/// All pods are in one event: what differs from order to order is who is known when.
fn three_pods() -> String {
    steps(&[CLAIM, POD, OTHER, OTHER_POD, PLAIN, PLAIN_POD])
}

fn of_the_tracker() -> Vec<Case> {
    let pods = three_pods();
    vec![
        case("add-attribute-for-selector", &[MODELS, &pods, &evict(BIG)], MINE_ALONE),
        case("selector-does-not-match", &[MODELS, &pods, &evict("cel=true cel=false cel=true")], NOT_STARTED),
        // The device without the attribute is left alone; the others are not spared for its sake.
        case(
            "runtime-CEL-errors-skip-devices",
            &[MODELS, &pods, &evict(STRICTLY_BIG)],
            &[
                "0s evict my-pod",
                "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace. Not all \
                 devices can be checked: 1 device could not be checked, among them some-driver/worker/plain: \
                 selector #0: no such key: model…",
                "0s event my-pod Marking",
                "0s status evict False SelectorError: 1 pod evicted since the rule was created. Not all devices \
                 can be checked: 1 device could not be checked, among them some-driver/worker/plain: selector \
                 #0: no such key: model…",
            ],
        ),
        // One rule that cannot be read harms nobody else: the taint of the slice still counts.
        case(
            "invalid-CEL-expression-throws-error",
            &["slice worker instance{k=v:NoExecute@0}", &steps(&[CLAIM, POD]), &evict("cel=device.nope==")],
            &[
                "0s evict my-pod",
                "0s status evict False SelectorError: Not all devices can be checked: selector #0: …",
                "0s event my-pod Marking",
            ],
        ),
        case("add-taint-for-device-class", &[MODELS, &pods, &class(BIG), &evict("class=big")], MINE_ALONE),
    ]
}

fn by_class() -> Vec<Case> {
    let pods = three_pods();
    let missing = "0s status evict False SelectorError: Not all devices can be checked: device class big does not exist";
    vec![
        case("class-missing", &[MODELS, &pods, &evict("class=big")], &[missing]),
        case(
            "class-that-cannot-be-read",
            &[MODELS, &pods, &class("cel=device.nope=="), &evict("class=big")],
            &[
                "0s status evict False SelectorError: Not all devices can be checked: device class big: selector #0: …",
            ],
        ),
        case(
            "class-and-expression",
            &[MODELS, &pods, &class("cel=true"), &evict(&format!("class=big {BIG}"))],
            MINE_ALONE,
        ),
        case(
            "class-and-name-that-disagree",
            &[MODELS, &pods, &class(BIG), &evict("class=big device=other")],
            NOT_STARTED,
        ),
        // A class that comes to mean others spares the one that was waiting.
        case(
            "class-changes-while-tolerated",
            &[
                MODELS,
                &steps(&["claim my-claim device=instance for=my-pod:1234 tolerate=k,Exists,-,60", POD]),
                &evict("class=big"),
                &steps(&[&class("cel=true"), &class("cel=false")]),
            ],
            &["0s event my-pod Cancelling", "0s status evict False NotStarted: "],
        ),
    ]
}

fn by_patch() -> Vec<Case> {
    let mine = steps(&[CLAIM, POD]);
    vec![
        case("patch-taints", &[MODELS, &mine, "patch p device=instance taint=k=v:NoExecute@0"], NO_RULE),
        case(
            "patch-taints-by-expression",
            &[MODELS, &three_pods(), &format!("patch p {BIG} taint=k=v:NoExecute@0")],
            NO_RULE,
        ),
        case("patch-without-selector", &[MODELS, &mine, "patch p nothing taint=k=v:NoExecute@0"], &[]),
        // Same key and effect: the patch's counts, which is from later.
        case(
            "patch-overrides-the-drivers-taint",
            &[
                "slice worker instance{k=v:NoExecute@0}",
                &mine,
                "patch p device=instance taint=k=v:NoExecute@30",
            ],
            &["30s evict my-pod", "30s event my-pod Marking"],
        ),
        case(
            "stronger-patch-overrides-the-weaker",
            &[
                MODELS,
                &mine,
                "patch a device=instance priority=1 taint=k=v:NoExecute@0",
                "patch b device=instance priority=2 taint=k=v:NoExecute@30",
            ],
            &["30s evict my-pod", "30s event my-pod Marking"],
        ),
        case(
            "first-of-two-equally-strong-patches",
            &[
                MODELS,
                &mine,
                "patch a device=instance taint=k=v:NoExecute@30",
                "patch b device=instance taint=k=v:NoExecute@0",
            ],
            &["30s evict my-pod", "30s event my-pod Marking"],
        ),
        case(
            "patch-removed-while-tolerated",
            &[
                MODELS,
                &steps(&["claim my-claim device=instance for=my-pod:1234 tolerate=k,Exists,-,60", POD]),
                &steps(&["patch p device=instance taint=k=v:NoExecute@0", "patch- p"]),
            ],
            &["0s event my-pod Cancelling"],
        ),
        case(
            "patch-tolerated-for-ever",
            &[
                MODELS,
                &steps(&["claim my-claim device=instance for=my-pod:1234 tolerate=k,Exists,-,-", POD]),
                "patch p device=instance taint=k=v:NoExecute@0",
            ],
            &[],
        ),
    ]
}

/// Rules look at what patches made of a device; patches look at what its driver said.
fn by_patched_values() -> Vec<Case> {
    let pods = three_pods();
    let sizes = "slice worker instance[memory~80] other[memory~20] plain";
    vec![
        case(
            "patch-gives-an-attribute",
            &[
                "slice worker instance",
                &steps(&[CLAIM, POD]),
                &evict(STRICTLY_BIG),
                "patch p device=instance set=model=big",
            ],
            MINE_ALONE,
        ),
        case(
            "patch-takes-an-attribute",
            &[MODELS, &pods, "patch p device=instance unset=model", &evict(BIG)],
            NOT_STARTED,
        ),
        case(
            "patch-key-with-its-domain",
            &[MODELS, &pods, "patch p device=instance set=some-driver/model=small", &evict(BIG)],
            NOT_STARTED,
        ),
        case(
            "patches-do-not-see-one-another",
            &[
                MODELS,
                &steps(&[OTHER, OTHER_POD]),
                "patch a device=other set=model=big",
                &format!("patch b {BIG} taint=k=v:NoExecute@0"),
            ],
            &[],
        ),
        case(
            "stronger-patch-has-the-last-word",
            &[
                MODELS,
                &pods,
                "patch a device=instance priority=5 set=model=big",
                "patch b device=instance priority=6 set=model=small",
                &evict(BIG),
            ],
            NOT_STARTED,
        ),
        case(
            "expression-over-capacity",
            &[sizes, &steps(&[CLAIM, POD, OTHER, OTHER_POD]), &evict(&format!("device=instance {ROOMY}"))],
            MINE_ALONE,
        ),
        case(
            "patch-changes-a-capacity",
            &[
                sizes,
                &steps(&[CLAIM, POD]),
                "patch p device=instance amount=memory=10",
                &evict(&format!("device=instance {ROOMY}")),
            ],
            NOT_STARTED,
        ),
        // The device goes while it is held: what was known of it, patch included, still counts.
        case(
            "device-matched-from-memory",
            &[&steps(&[MODELS, CLAIM, POD, "slice- worker"]), &evict(BIG)],
            &[
                "0s evict my-pod",
                "0s status evict True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace. \
                 1 allocated device is matched from memory, being published no more.",
                "0s event my-pod Marking",
                "0s status evict False Completed: 1 allocated device is matched from memory, being published no \
                 more. 1 pod evicted since the rule was created.",
            ],
        ),
    ]
}
