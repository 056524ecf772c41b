use lazaret_json::{Value, json};

use crate::testing::{World, kind, set};

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn workload() -> Value {
    json!({"metadata": {"name": "w", "uid": "u"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template()}})
}

#[test]
fn selectors_find_the_pods_of_the_template_and_stay() {
    for plural in ["deployments", "replicasets", "statefulsets", "daemonsets"] {
        let kind = kind("apps", plural);
        let world = World::new();
        let created = world.create(kind, workload()).ok();
        assert_eq!(created["spec"]["template"]["spec"]["restartPolicy"], "Always", "{plural}");
        let wrong = |object: Value| world.create(kind, object).wrong();
        let at = "spec.template.metadata.labels Invalid";
        assert_eq!(wrong(set(&workload(), "/spec/selector/matchLabels/app", json!("b"))), [at], "{plural}");
        assert_eq!(
            wrong(set(&workload(), "/spec/selector", Value::Null)),
            ["spec.selector Required"],
            "{plural}"
        );
        assert_eq!(
            wrong(set(&workload(), "/spec/selector", json!({}))),
            ["spec.selector Invalid"],
            "{plural}"
        );
        assert_eq!(
            wrong(set(&workload(), "/spec/template/spec/containers", json!([]))),
            ["spec.template.spec.containers Required"],
            "{plural}"
        );
        assert_eq!(
            wrong(set(&workload(), "/spec/template/spec/restartPolicy", json!("Never"))),
            ["spec.template.spec.restartPolicy NotSupported"],
            "{plural}"
        );
        let mut moved = set(&created, "/spec/selector/matchLabels/app", json!("b"));
        moved["spec"]["template"]["metadata"]["labels"]["app"] = json!("b");
        let refused = if plural == "statefulsets" { "spec Forbidden" } else { "spec.selector Invalid" };
        assert_eq!(world.update(kind, &created, moved).wrong(), [refused], "{plural}");
        world
            .update(kind, &created, set(&created, "/spec/template/spec/containers/0/image", json!("i:2")))
            .ok();
    }
}

#[test]
fn daemon_sets_count_changes_of_their_template() {
    let daemons = kind("apps", "daemonsets");
    let generation = |object: &Value| {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    let world = World::new();
    let created = world.create(daemons, workload()).ok();
    assert_eq!(generation(&created), "1");
    let label = world.update(daemons, &created, set(&created, "/metadata/labels", json!({"a": "b"}))).ok();
    assert_eq!(generation(&label), "1");
    let mut changed = set(&label, "/spec/template/spec/containers/0/image", json!("i:2"));
    changed["metadata"]["annotations"] = json!({});
    assert_eq!(generation(&world.update(daemons, &label, changed).ok()), "2", "clients cannot set it");
}

#[test]
fn deployments() {
    let deployments = kind("apps", "deployments");
    let created = World::new().create(deployments, workload()).ok();
    let spec = &created["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
        (&json!(1), &json!(10), &json!(600))
    );
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    let mixed =
        set(&workload(), "/spec/strategy", json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}));
    assert_eq!(World::new().create(deployments, mixed).wrong(), ["spec.strategy.rollingUpdate Forbidden"]);
    let running =
        set(&created, "/status", json!({"readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}));
    assert_eq!(
        World::new().row(deployments, &running),
        [
            "Ready=1/1",
            "Up-to-date=1",
            "Available=1",
            "Age=<unknown>",
            "Containers=c",
            "Images=i:1",
            "Selector=app=a"
        ]
    );
    let scaled = set(&workload(), "/spec/replicas", json!(-1));
    assert_eq!(World::new().create(deployments, scaled).wrong(), ["spec.replicas Invalid"]);
}

#[test]
fn jobs() {
    let jobs = kind("batch", "jobs");
    let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": set(&template(), "/spec/restartPolicy", json!("Never"))}});
    let created = World::new().create(jobs, job.clone()).ok();
    assert_eq!(
        created["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    assert_eq!(created["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    let bare = set(&job, "/spec/template/metadata", json!({}));
    let bare = World::new().create(jobs, bare).ok();
    assert_eq!(bare["metadata"]["labels"], bare["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(bare["metadata"]["labels"]["controller-uid"], "u");
    assert_eq!((&created["spec"]["completions"], &created["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
    assert_eq!(World::new().row(jobs, &created)[..3], ["Status=Running", "Completions=0/1", "Duration="]);
    let done = json!({"succeeded": 1, "startTime": "2026-03-01T11:00:00Z", "completionTime": "2026-03-01T11:05:10Z", "conditions": [{"type": "Complete", "status": "True"}]});
    let done = set(&created, "/status", done);
    assert_eq!(World::new().row(jobs, &done)[..3], ["Status=Complete", "Completions=1/1", "Duration=5m10s"]);
    assert_eq!(jobs.rules.select(&done, "status.successful").as_deref(), Some("1"));
    let always = set(&job, "/spec/template/spec/restartPolicy", json!("Always"));
    assert_eq!(World::new().create(jobs, always).wrong(), ["spec.template.spec.restartPolicy NotSupported"]);
    let other = set(&created, "/spec/template/spec/containers/0/image", json!("x:1"));
    assert_eq!(World::new().update(jobs, &created, other).wrong(), ["spec.template Invalid"]);
    let cron = kind("batch", "cronjobs");
    let hourly = json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job["spec"]}}});
    World::new().create(cron, hourly.clone()).ok();
    assert_eq!(
        World::new().create(cron, set(&hourly, "/spec/schedule", json!("often"))).wrong(),
        ["spec.schedule Invalid"]
    );
}

#[test]
fn budgets_roles_leases_and_definitions() {
    let world = World::new();
    let budgets = kind("policy", "poddisruptionbudgets");
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}});
    let created = world.create(budgets, budget.clone()).ok();
    assert_eq!(
        world.row(budgets, &created)[..3],
        ["Min Available=50%", "Max Unavailable=N/A", "Allowed Disruptions=0"]
    );
    assert_eq!(
        world.create(budgets, set(&budget, "/spec/maxUnavailable", json!(1))).wrong(),
        ["spec Invalid"]
    );
    assert_eq!(
        world.create(budgets, set(&budget, "/spec/minAvailable", json!("101%"))).wrong(),
        ["spec.minAvailable Invalid"]
    );

    let roles = kind("rbac.authorization.k8s.io", "clusterroles");
    let rules =
        |rule: Value| world.create(roles, json!({"metadata": {"name": "r"}, "rules": [rule]})).wrong();
    assert!(rules(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})).is_empty());
    assert!(rules(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]})).is_empty());
    assert_eq!(rules(json!({"apiGroups": [""], "resources": ["pods"]})), ["rules[0].verbs Required"]);
    assert_eq!(rules(json!({"verbs": ["get"], "resources": ["pods"]})), ["rules[0].apiGroups Required"]);
    let bindings = kind("rbac.authorization.k8s.io", "clusterrolebindings");
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]});
    let created = world.create(bindings, binding.clone()).ok();
    assert_eq!(created["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(world.row(bindings, &created)[0], "Role=ClusterRole/r");
    assert_eq!(
        world.update(bindings, &created, set(&created, "/roleRef/name", json!("x"))).wrong(),
        ["roleRef Invalid"]
    );
    let account = set(&binding, "/subjects", json!([{"kind": "ServiceAccount", "name": "s"}]));
    assert_eq!(world.create(bindings, account).wrong(), ["subjects[0].namespace Required"]);

    let leases = kind("coordination.k8s.io", "leases");
    assert_eq!(
        world.create(leases, json!({"spec": {"leaseDurationSeconds": 0}})).wrong(),
        ["spec.leaseDurationSeconds Invalid"]
    );
    assert_eq!(world.row(leases, &json!({"spec": {"holderIdentity": "me"}}))[0], "Holder=me");

    let definitions = kind("apiextensions.k8s.io", "customresourcedefinitions");
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]}});
    let created = world.create(definitions, definition.clone()).ok();
    assert_eq!(
        created["spec"]["names"],
        json!({"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"})
    );
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        world.create(definitions, set(&definition, "/metadata/name", json!("x.y"))).wrong(),
        ["metadata.name Invalid"]
    );
    assert_eq!(
        world.create(definitions, set(&definition, "/spec/versions/0/storage", json!(false))).wrong(),
        ["spec.versions Invalid"]
    );
}

/// Every kind makes sense of an object that says nothing, and of one whose parts are of the wrong type.
#[test]
fn no_kind_stumbles_over_odd_objects() {
    let odd = [
        json!({}),
        json!({"metadata": null, "spec": null, "status": null}),
        json!({"metadata": 1, "spec": "x", "status": [], "data": 7, "rules": {}, "subjects": 1, "roleRef": []}),
        json!({"spec": {"devices": 1, "template": 2, "taint": [], "containers": {}, "ports": 7, "selector": "x", "pool": 1, "deviceSelector": 3}}),
        json!({"spec": {"devices": [1, null, {"attributes": 1, "taints": [2]}], "taints": [null, 1], "volumes": [1], "containers": [null, 3]}}),
        json!({"spec": {"devices": {"requests": [1, {"exactly": 2, "firstAvailable": [3]}], "constraints": [4], "taints": [5]}}}),
        json!({"status": {"allocation": {"devices": {"results": [1]}}, "devices": [2], "conditions": [3], "reservedFor": [4]}}),
    ];
    for kind in crate::all() {
        for object in &odd {
            for served in &kind.versions {
                let world = World::new().in_version(&served.version);
                let created = world.create(kind, object.clone()).object;
                for old in &odd {
                    let updated = world.update(kind, old, created.clone()).object;
                    let mut shown = world.status(kind, old, updated).object;
                    kind.rules.to_version(&mut shown, &served.version);
                    world.row(kind, &shown);
                }
            }
        }
    }
}

#[test]
fn updates_leave_room_and_never_more_than_all() {
    let world = World::new();
    let refused = |plural: &str, field: &str, strategy: Value| {
        let object = set(&workload(), &format!("/spec/{field}"), strategy);
        world.create(kind("apps", plural), object).wrong()
    };
    let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    for (plural, field) in [("deployments", "strategy"), ("daemonsets", "updateStrategy")] {
        let under = |name: &str, problem: &str| format!("spec.{field}.rollingUpdate.{name} {problem}");
        for wrong in [json!(-1), json!("5"), json!("%"), json!("-5%"), json!("many")] {
            let surge = if plural == "daemonsets" { json!(0) } else { json!(1) };
            let found = refused(plural, field, rolling(wrong.clone(), surge));
            assert!(found.contains(&under("maxUnavailable", "Invalid")), "{plural} {wrong}: {found:?}");
        }
        assert!(
            refused(plural, field, rolling(json!("101%"), json!(0)))
                .contains(&under("maxUnavailable", "Invalid"))
        );
        let none = if plural == "daemonsets" { "Required" } else { "Invalid" };
        assert_eq!(refused(plural, field, rolling(json!("0%"), json!(0))), [under("maxUnavailable", none)]);
        assert!(!refused(plural, field, json!({"type": "Sometimes"})).is_empty());
    }
    let both = refused("daemonsets", "updateStrategy", rolling(json!(1), json!(1)));
    assert_eq!(both, ["spec.updateStrategy.rollingUpdate.maxSurge Invalid"]);
    let ok = |plural: &str, strategy: Value| {
        let field = if plural == "deployments" { "strategy" } else { "updateStrategy" };
        world.create(kind("apps", plural), set(&workload(), &format!("/spec/{field}"), strategy)).ok()
    };
    ok("deployments", rolling(json!("100%"), json!("200%")));
    ok("daemonsets", rolling(json!(0), json!("100%")));
    ok("daemonsets", json!({"type": "OnDelete"}));
    ok("statefulsets", json!({"type": "OnDelete"}));
    for wrong in [
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "200%"}}),
        json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        json!({"type": "Sometimes"}),
    ] {
        assert_eq!(refused("statefulsets", "updateStrategy", wrong.clone()).len(), 1, "{wrong}");
    }
}

#[test]
fn a_stateful_set_may_mount_what_it_claims() {
    let sets = kind("apps", "statefulsets");
    let mount = json!([{"name": "data", "mountPath": "/data"}]);
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": mount}]}});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, "volumeClaimTemplates": [claim]}});
    let made = World::new().create(sets, set.clone()).ok();
    let kept = &made["spec"]["volumeClaimTemplates"][0];
    assert_eq!(
        (&kept["spec"]["volumeMode"], &kept["status"]),
        (&json!("Filesystem"), &json!({"phase": "Pending"}))
    );
    assert_eq!(made["spec"]["template"]["spec"].get("volumes"), None, "the volumes are those of the pods");
    set["spec"]["volumeClaimTemplates"] = Value::Null;
    assert_eq!(
        World::new().create(sets, set).wrong(),
        ["spec.template.spec.containers[0].volumeMounts[0].name NotFound"]
    );
}

#[test]
fn limits_of_a_job_for_each_index() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let wrong = |more: Value| {
        let mut job = json!({"metadata": {"name": "j"}, "spec": {"completionMode": "Indexed", "completions": 2, "template": template.clone()}});
        for (name, value) in more.as_object().into_iter().flatten() {
            job["spec"][name.as_str()] = value.clone();
        }
        World::new().create(kind("batch", "jobs"), job)
    };
    let (limit, most) = ("spec.backoffLimitPerIndex", "spec.maxFailedIndexes");
    let none: &[String] = &[];
    let many = json!({"backoffLimitPerIndex": 0, "completions": 100_001, "parallelism": 10_001, "maxFailedIndexes": 10_001});
    for (more, expected) in [
        (json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 2}), none),
        (json!({"backoffLimitPerIndex": -1}), &[format!("{limit} Invalid")]),
        (json!({"maxFailedIndexes": 1}), &[format!("{limit} Required")]),
        (json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 3}), &[format!("{most} Invalid")]),
        (json!({"completionMode": "NonIndexed", "backoffLimitPerIndex": 0}), &[format!("{limit} Invalid")]),
        (json!({"backoffLimitPerIndex": 0, "completions": 100_001}), &[format!("{most} Required")]),
        (many, &[format!("{most} Invalid"), "spec.parallelism Invalid".to_owned()]),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onPodConditions": [{"type": "Ready"}]}]}}),
            &["spec.podFailurePolicy.rules[0].action Invalid".to_owned()],
        ),
    ] {
        assert_eq!(wrong(more.clone()).wrong(), expected, "{more}");
    }
    let made = wrong(json!({"backoffLimitPerIndex": 1})).object;
    assert_eq!(made["spec"]["backoffLimit"], i32::MAX);
    assert_eq!(wrong(json!({})).object["spec"]["backoffLimit"], 6);
}

/// The messages are those of Kubernetes 1.37.
#[test]
fn what_a_job_may_say_of_its_pods_and_its_controller() {
    let said = |more: Value| {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let mut job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
        for (name, value) in more.as_object().into_iter().flatten() {
            job["spec"][name.as_str()] = value.clone();
        }
        let written = World::new().create(kind("batch", "jobs"), job);
        written.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    let codes = |codes: Value| rule(json!({"action": "FailJob", "onExitCodes": codes}));
    let path = "spec.podFailurePolicy.rules[0]";
    for (more, expected) in [
        (json!({"completionMode": "x"}), r#"spec.completionMode: Unsupported value: "x": supported values: "NonIndexed", "Indexed""#.to_owned()),
        (json!({"managedBy": "x"}), r#"spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")"#.to_owned()),
        (json!({"managedBy": "a.io/{"}), r#"spec.managedBy: Invalid value: "{": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"#.to_owned()),
        (json!({"managedBy": format!("a.io/{}", "x".repeat(59))}), "spec.managedBy: Too long: may not be more than 63 bytes".to_owned()),
        (rule(json!({"onPodConditions": [{"type": "Ready"}]})), format!(r#"{path}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#)),
        (rule(json!({"action": "x", "onPodConditions": [{"type": "Ready"}]})), format!(r#"{path}.action: Unsupported value: "x": supported values: "Count", "FailIndex", "FailJob", "Ignore""#)),
        (rule(json!({"action": "Count"})), format!("{path}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required")),
        (
            rule(json!({"action": "Count", "onPodConditions": [{"type": "Ready", "status": "x"}]})),
            format!(r#"{path}.onPodConditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown""#),
        ),
        (codes(json!({"operator": "x", "values": [1]})), format!(r#"{path}.onExitCodes.operator: Unsupported value: "x": supported values: "In", "NotIn""#)),
        (codes(json!({"operator": "In", "values": [0]})), format!("{path}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator")),
        (codes(json!({"operator": "In", "values": [1, 1]})), format!("{path}.onExitCodes.values[1]: Duplicate value: 1")),
        (codes(json!({"operator": "In", "values": [2, 1]})), format!("{path}.onExitCodes.values: Invalid value: [2,1]: must be ordered")),
        (
            codes(json!({"operator": "In", "values": [1], "containerName": "x"})),
            format!(r#"{path}.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template"#),
        ),
    ] {
        assert_eq!(said(more.clone()), [expected], "{more}");
    }
    let mut replaced = codes(json!({"operator": "In", "values": [1]}));
    assert!(said(replaced.clone()).is_empty());
    replaced["podReplacementPolicy"] = json!("TerminatingOrFailed");
    assert_eq!(
        said(replaced),
        [
            r#"spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed""#
        ]
    );
    assert!(said(json!({"managedBy": "example.com/controller"})).is_empty());
}

/// The messages are those of Kubernetes 1.37.
#[test]
fn when_a_job_is_done_before_all_of_its_indexes_are() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let said = |mode: &str, rules: Value| {
        let spec = json!({"completionMode": mode, "completions": 5, "template": template, "successPolicy": {"rules": rules}});
        let job = json!({"metadata": {"name": "j"}, "spec": spec});
        let written = World::new().create(kind("batch", "jobs"), job);
        written.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (rules, rule) = ("spec.successPolicy.rules", "spec.successPolicy.rules[0]");
    let parsing = |indexes: &str, why: &str| {
        let wrong = format!(
            "{rule}.succeededIndexes: Invalid value: {indexes:?}: error parsing succeededIndexes: {why}"
        );
        (json!([{"succeededIndexes": indexes}]), wrong)
    };
    for (asked, expected) in [
        (
            json!([]),
            format!(
                "{rules}: Required value: at least one rules must be specified when the successPolicy is specified"
            ),
        ),
        (
            json!(vec![json!({"succeededCount": 1}); 21]),
            format!("{rules}: Too many: 21: must have at most 20 items"),
        ),
        (
            json!([{}]),
            format!(
                "{rule}: Required value: at least one of succeededCount or succeededIndexes must be specified"
            ),
        ),
        (
            json!([{"succeededCount": 6}]),
            format!(
                "{rule}.succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)"
            ),
        ),
        (
            json!([{"succeededCount": 3, "succeededIndexes": "0,4"}]),
            format!(
                "{rule}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"
            ),
        ),
        (
            json!([{"succeededCount": -1}]),
            format!("{rule}.succeededCount: Invalid value: -1: must be greater than or equal to 0"),
        ),
        parsing("a", r#"cannot convert string to integer for index: "a""#),
        parsing("5", r#"too large index: "5""#),
        parsing(
            "1-2-3",
            r#"the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'"#,
        ),
        parsing("3,1", "non-increasing order, previous: 3, current: 1"),
        parsing("2-1", "non-increasing order, previous: 2, current: 1"),
    ] {
        assert_eq!(said("Indexed", asked.clone()), [expected], "{asked}");
    }
    for accepted in [
        json!([{"succeededIndexes": "0-2,4", "succeededCount": 4}]),
        json!([{"succeededCount": 5}]),
        json!([{"succeededIndexes": ""}]),
    ] {
        assert_eq!(said("Indexed", accepted.clone()), [""; 0], "{accepted}");
    }
    let [wrong] = &said("NonIndexed", json!([{"succeededCount": 1}]))[..] else { panic!("one error") };
    assert!(wrong.ends_with("requires indexed completion mode"), "{wrong}");
}

#[test]
fn what_of_a_job_with_indexes_may_change() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let policy = json!({"rules": [{"succeededCount": 1}]});
    let spec = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5, "template": template, "successPolicy": policy});
    let jobs = kind("batch", "jobs");
    let made = World::new().create(jobs, json!({"metadata": {"name": "j"}, "spec": spec})).ok();
    let fewer = set(&made, "/spec/completions", json!(3));
    assert_eq!(World::new().update(jobs, &made, fewer.clone()).wrong(), ["spec.completions Invalid"]);
    World::new().update(jobs, &made, set(&fewer, "/spec/parallelism", json!(3))).ok();
    let other = set(&made, "/spec/successPolicy/rules/0/succeededCount", json!(2));
    assert_eq!(World::new().update(jobs, &made, other).wrong(), ["spec.successPolicy Invalid"]);
}

/// The messages are those of Kubernetes 1.37, but for zones that are not universal.
#[test]
fn what_a_cron_job_may_say() {
    let cron = kind("batch", "cronjobs");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let hourly = json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}}});
    let with = |path: &str, value: Value| {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let mut job = hourly.clone();
        job.pointer_mut(parent).unwrap()[field] = value;
        job
    };
    let said = |job: Value| {
        let written = World::new().create(cron, job);
        written.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let job = "spec.jobTemplate.spec";
    for (path, value, expected) in [
        ("/spec/schedule", json!(""), "spec.schedule: Required value".to_owned()),
        ("/spec/schedule", json!("TZ=UTC 0 * * * *"), r#"spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#.to_owned()),
        ("/spec/timeZone", json!(""), r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#.to_owned()),
        ("/spec/timeZone", json!("Local"), r#"spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"#.to_owned()),
        ("/spec/timeZone", json!("Mars/Olympus"), r#"spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus"#.to_owned()),
        ("/spec/timeZone", json!("Europe/Zurich"), r#"spec.timeZone: Invalid value: "Europe/Zurich": times are universal here: must be Etc/UTC, or absent"#.to_owned()),
        ("/spec/concurrencyPolicy", json!("x"), r#"spec.concurrencyPolicy: Unsupported value: "x": supported values: "Allow", "Forbid", "Replace""#.to_owned()),
        ("/spec/successfulJobsHistoryLimit", json!(-1), "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        ("/spec/failedJobsHistoryLimit", json!(-1), "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        ("/spec/startingDeadlineSeconds", json!(-1), "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        ("/spec/jobTemplate/spec/backoffLimit", json!(-1), format!("{job}.backoffLimit: Invalid value: -1: must be greater than or equal to 0")),
        ("/spec/jobTemplate/spec/completionMode", json!("x"), format!(r#"{job}.completionMode: Unsupported value: "x": supported values: "NonIndexed", "Indexed""#)),
        ("/spec/jobTemplate/spec/manualSelector", json!(true), format!(r#"{job}.manualSelector: Unsupported value: true: supported values: "nil", "false""#)),
        ("/spec/jobTemplate/spec/podReplacementPolicy", json!("x"), format!(r#"{job}.podReplacementPolicy: Unsupported value: "x": supported values: "Failed", "TerminatingOrFailed""#)),
        ("/spec/jobTemplate/spec/podFailurePolicy", json!({"rules": [{"action": "Count"}]}), format!("{job}.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required")),
    ] {
        assert_eq!(said(with(path, value.clone())), [expected], "{path} {value}");
    }
    let [wrong] = &said(with("/spec/jobTemplate/spec/selector", json!({"matchLabels": {"a": "b"}})))[..]
    else {
        panic!("one error")
    };
    assert!(wrong.ends_with("`selector` will be auto-generated"), "{wrong}");
    assert_eq!(said(with("/spec/jobTemplate/metadata", json!({"labels": {"a b": "c"}}))).len(), 1);
    assert_eq!(said(with("/spec/timeZone", json!("Etc/UTC"))), [""; 0]);
    let made = World::new().create(cron, hourly.clone()).ok();
    let mut long = made.clone();
    long["metadata"]["name"] = "x".repeat(53).into();
    assert_eq!(World::new().create(cron, long.clone()).wrong(), ["metadata.name Invalid"]);
    World::new().update(cron, &long, long.clone()).ok();
    let condition = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}]});
    let made = World::new().create(cron, with("/spec/jobTemplate/spec/podFailurePolicy", condition)).ok();
    assert_eq!(
        made["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"],
        "True"
    );
}

#[test]
fn the_order_in_which_a_stateful_set_makes_pods_is_one_of_two() {
    let set = |policy: &str| {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"podManagementPolicy": policy, "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template});
        let set = json!({"metadata": {"name": "s"}, "spec": spec});
        let written = World::new().create(kind("apps", "statefulsets"), set);
        written.errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(set("Parallel").is_empty() && set("OrderedReady").is_empty());
    assert_eq!(
        set("x"),
        [r#"spec.podManagementPolicy: Invalid value: "x": must be 'OrderedReady' or 'Parallel'"#]
    );
}
