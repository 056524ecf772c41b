//! Deployments against a model of the API server.

use lazaret_workloads::{resource, rules};
use serde_json::{Value, json};

use crate::support::{
    rig::{Faults, Rig},
    template,
};

const ALL: &[lazaret_workloads::Rules] = &[rules::DEPLOYMENTS, rules::REPLICA_SETS, rules::GARBAGE];

fn deployment(name: &str, replicas: u64, strategy: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "annotations": {"team": "blue"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name),
            "strategy": strategy, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 2,
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn set_image(rig: &mut Rig, image: &str) {
    rig.api.change(&resource::DEPLOYMENTS, "default", "web", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    });
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(Value::Null)
}

fn images(rig: &Rig) -> Vec<String> {
    let image = |pod: &&Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    rig.live_pods().iter().map(image).collect()
}

/// Invariant of a rollout: at most `most` live pods and at least `least` ready ones, by the deployment's annotations.
fn within_limits(rig: &Rig) {
    let deployment = rig.object(&resource::DEPLOYMENTS, "web");
    let limit = |name: &str| {
        deployment["metadata"]["annotations"][name].as_str().and_then(|text| text.parse::<usize>().ok())
    };
    let Some((most, least)) = limit("most").zip(limit("least")) else { return };
    let live = rig.live_pods();
    assert!(live.len() <= most, "{} pods, at most {most}", live.len());
    let ready = live.iter().filter(|pod| pod["status"]["conditions"][0]["status"] == "True").count();
    assert!(ready >= least, "{ready} ready pods, at least {least}");
}

#[test]
fn a_deployment_is_rolled_out_and_says_so() {
    let mut rig = Rig::new(ALL, 1, Faults::NONE);
    rig.create(&resource::DEPLOYMENTS, deployment("web", 3, rolling(json!("25%"), json!("25%"))));
    rig.settle(60);
    let web = rig.object(&resource::DEPLOYMENTS, "web").clone();
    let status = &web["status"];
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[field], 3, "{field}: {status}");
    }
    assert_eq!(status["unavailableReplicas"], Value::Null);
    assert_eq!(condition(&web, "Available")["reason"], "MinimumReplicasAvailable");
    assert_eq!(condition(&web, "Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let set = rig.api.all(&resource::REPLICA_SETS).next().unwrap();
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(set["metadata"]["name"], format!("web-{}", hash.as_str().unwrap()));
    assert_eq!(set["metadata"]["annotations"]["team"], "blue");
    assert_eq!(&set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert!(rig.live_pods().iter().all(|pod| &pod["metadata"]["labels"]["pod-template-hash"] == hash));
}

#[test]
fn a_new_template_replaces_the_old_and_can_be_undone() {
    let mut rig = Rig::new(ALL, 2, Faults::NONE);
    rig.create(&resource::DEPLOYMENTS, deployment("web", 4, rolling(json!(1), json!(1))));
    rig.settle(60);
    for (image, revision) in
        [("example.com/main:2", "2"), ("example.com/main:3", "3"), ("example.com/main:1", "4")]
    {
        set_image(&mut rig, image);
        rig.settle(120);
        assert_eq!(images(&rig), vec![image; 4]);
        let web = rig.object(&resource::DEPLOYMENTS, "web");
        assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], revision);
    }
    let first = rig.api.all(&resource::REPLICA_SETS).find(|set| set["spec"]["replicas"] == 4).unwrap();
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    for version in 4..8 {
        set_image(&mut rig, &format!("example.com/main:{version}"));
        rig.settle(120);
    }
    assert_eq!(rig.api.all(&resource::REPLICA_SETS).count(), 3, "the current one and two of history");
}

#[test]
fn recreate_never_mixes_templates() {
    let mut rig = Rig::new(ALL, 3, Faults::MANY);
    rig.create(&resource::DEPLOYMENTS, deployment("web", 5, json!({"type": "Recreate"})));
    rig.settle(120);
    rig.check = |rig| {
        let all = rig.api.all(&resource::PODS);
        let images: std::collections::BTreeSet<_> =
            all.map(|pod| pod["spec"]["containers"][0]["image"].to_string()).collect();
        assert!(images.len() <= 1, "{images:?}");
    };
    set_image(&mut rig, "example.com/main:2");
    rig.settle(240);
    assert_eq!(images(&rig), vec!["example.com/main:2"; 5]);
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled() {
    let mut rig = Rig::new(ALL, 4, Faults::NONE);
    rig.create(&resource::DEPLOYMENTS, deployment("web", 2, rolling(json!(1), json!(0))));
    rig.settle(60);
    rig.api.change(&resource::DEPLOYMENTS, "default", "web", |web| {
        web["spec"]["paused"] = json!(true);
        web["spec"]["replicas"] = json!(4);
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/main:2");
    });
    rig.settle(60);
    assert_eq!(images(&rig), vec!["example.com/main:1"; 4]);
    assert_eq!(
        condition(rig.object(&resource::DEPLOYMENTS, "web"), "Progressing")["reason"],
        "DeploymentPaused"
    );
    rig.api.change(&resource::DEPLOYMENTS, "default", "web", |web| web["spec"]["paused"] = json!(false));
    rig.settle(120);
    assert_eq!(images(&rig), vec!["example.com/main:2"; 4]);
}

#[test]
fn a_rollout_that_stands_still_says_so_after_its_deadline_and_keeps_the_old_pods() {
    let mut rig = Rig::new(ALL, 5, Faults::NONE);
    let mut web = deployment("web", 4, rolling(json!(1), json!(1)));
    web["spec"]["progressDeadlineSeconds"] = json!(30);
    rig.create(&resource::DEPLOYMENTS, web);
    rig.settle(60);
    rig.pods = crate::support::rig::Pods::Wait;
    set_image(&mut rig, "example.com/broken:1");
    rig.pass(60);
    let web = rig.object(&resource::DEPLOYMENTS, "web");
    let progressing = condition(web, "Progressing");
    assert_eq!(
        (&progressing["status"], &progressing["reason"]),
        (&json!("False"), &json!("ProgressDeadlineExceeded"))
    );
    let old = images(&rig).iter().filter(|image| *image == "example.com/main:1").count();
    assert_eq!(old, 3, "all that may be missed are gone, no more");
    assert_eq!(condition(web, "Available")["status"], "True");
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_in_proportion() {
    let mut rig = Rig::new(ALL, 6, Faults::NONE);
    rig.create(&resource::DEPLOYMENTS, deployment("web", 10, rolling(json!(3), json!(2))));
    rig.settle(60);
    rig.pods = crate::support::rig::Pods::Wait;
    set_image(&mut rig, "example.com/main:2");
    rig.settle(20);
    let sizes = |rig: &Rig| {
        let mut sizes: Vec<u64> = rig
            .api
            .all(&resource::REPLICA_SETS)
            .map(|set| set["spec"]["replicas"].as_u64().unwrap())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&rig), [5, 8]);
    rig.api.change(&resource::DEPLOYMENTS, "default", "web", |web| web["spec"]["replicas"] = json!(20));
    rig.settle(20);
    // 23 in all, where there were 13: 8 * 23 / 13 and 5 * 23 / 13, rounded.
    assert_eq!(sizes(&rig), [9, 14]);
}

#[test]
fn whatever_goes_wrong_a_rollout_stays_within_its_limits() {
    for seed in 0..60 {
        let mut rig = Rig::new(ALL, seed, Faults::MANY);
        let replicas = 1 + rig.rng.below(12);
        let surge = rig.rng.below(4);
        let unavailable = if surge == 0 { 1 + rig.rng.below(3) } else { rig.rng.below(4) };
        rig.create(
            &resource::DEPLOYMENTS,
            deployment("web", replicas, rolling(json!(surge), json!(unavailable))),
        );
        rig.settle(300);
        rig.api.change(&resource::DEPLOYMENTS, "default", "web", |web| {
            web["metadata"]["annotations"]["most"] = json!((replicas + surge).to_string());
            web["metadata"]["annotations"]["least"] = json!(replicas.saturating_sub(unavailable).to_string());
        });
        rig.check = within_limits;
        set_image(&mut rig, "example.com/main:2");
        if rig.rng.percent(30) {
            rig.pass(2);
            set_image(&mut rig, "example.com/main:3");
        }
        if rig.rng.percent(30) {
            rig.pass(1);
            rig.restart(ALL);
        }
        rig.settle(900);
        let wanted =
            rig.object(&resource::DEPLOYMENTS, "web")["spec"]["template"]["spec"]["containers"][0]["image"]
                .clone();
        assert_eq!(
            images(&rig),
            vec![wanted.as_str().unwrap(); usize::try_from(replicas).unwrap()],
            "seed {seed}"
        );
        let web = rig.object(&resource::DEPLOYMENTS, "web");
        assert_eq!(condition(web, "Progressing")["reason"], "NewReplicaSetAvailable", "seed {seed}");
    }
}
