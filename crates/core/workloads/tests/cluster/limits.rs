//! The limit of pods that one object may create, and a server that refuses further pods.

use lazaret_machine::{Outcome, Reply};
use lazaret_model::Timestamp;
use lazaret_workloads::{Effect, Limits, Object, Resource, Rules, Workloads, Write, resource, rules};
use serde_json::{Value, json};

use crate::support::{api::Api, replica_set};

const HUGE: i64 = 2_000_000_000;
const LIMITS: Limits = Limits { owner_pods_max: 20 };

/// Controllers and a server that refuses pods beyond `pods_max`.
struct Cluster {
    core: Workloads,
    api: Api,
    now: Timestamp,
    pods_max: usize,
    creates: usize,
    events: Vec<(&'static str, String)>,
}

impl Cluster {
    fn new(rules: &[Rules], limits: Limits, pods_max: usize) -> Self {
        let mut core = Workloads::with_limits(rules, limits);
        let now = Timestamp::from_secs(1_800_000_000);
        resource::KNOWN.iter().for_each(|resource| core.list(now, resource, Vec::new(), 0));
        Self { core, api: Api::default(), now, pods_max, creates: 0, events: Vec::new() }
    }

    fn create(&mut self, resource: &'static Resource, object: Value) {
        let made = self.api.create(self.now, resource, object).unwrap();
        self.core.put(self.now, Object::parse(resource, &made).unwrap());
    }

    fn pods(&self) -> usize {
        self.api.all(&resource::PODS).count()
    }

    fn run(&mut self, seconds: i64) {
        for turn in 0..seconds * 10 {
            for Effect { id, kind: write } in self.core.poll(self.now) {
                let answer = match &write {
                    Write::Event(note) => {
                        self.events.push((note.reason, note.message.clone()));
                        continue;
                    }
                    Write::Create { resource, .. } if **resource == resource::PODS => {
                        self.creates += 1;
                        if self.pods() >= self.pods_max {
                            let why = Some("forbidden: exceeded limit".into());
                            Reply { why, ..Outcome::RetryLater.into() }.into()
                        } else {
                            self.api.carry_out(self.now, &write)
                        }
                    }
                    other @ (Write::Create { .. }
                    | Write::Patch { .. }
                    | Write::Replace { .. }
                    | Write::Finalize { .. }
                    | Write::Delete { .. }
                    | Write::Evict { .. }
                    | Write::Confirm { .. }
                    | Write::ReadScale { .. }) => self.api.carry_out(self.now, other),
                };
                self.core.acknowledge(self.now, id, answer);
            }
            self.now = self.now.plus_millis(100);
            if turn % 10 == 0 {
                self.news();
            }
        }
    }

    /// Something changes about a pod: no reason to make one sooner.
    fn news(&mut self) {
        let name = self
            .api
            .all(&resource::PODS)
            .next()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        let Some(name) = name else { return };
        let turn = |pod: &mut Value| {
            let turns =
                pod["metadata"]["annotations"]["turns"].as_str().map_or(0, |turns| turns.parse().unwrap());
            pod["metadata"]["annotations"]["turns"] = json!(format!("{}", turns + 1));
        };
        let pod = self.api.change(&resource::PODS, "default", &name, turn).unwrap();
        self.core.put(self.now, Object::parse(&resource::PODS, &pod).unwrap());
    }

    fn failure(&self) -> Value {
        let set = self.api.get(&resource::REPLICA_SETS, "default", "web").unwrap();
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "ReplicaFailure").unwrap_or_default()
    }
}

#[test]
fn a_replica_set_makes_no_more_than_one_owner_may_and_says_so() {
    let mut cluster = Cluster::new(&[rules::REPLICA_SETS], LIMITS, usize::MAX);
    cluster.create(&resource::REPLICA_SETS, replica_set("web", HUGE as u64));
    cluster.run(10);
    assert_eq!((cluster.pods(), cluster.creates), (20, 20));
    let failure = cluster.failure();
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("FailedCreate")));
    let message =
        "exceeded limit: 2000000000 pods are wanted and one owner gets at most 20 (--owner-pods-max)";
    assert_eq!(failure["message"], message);
    let told = cluster.events.iter().filter(|(reason, _)| *reason == "FailedCreate").collect::<Vec<_>>();
    assert_eq!(told, [&("FailedCreate", message.to_owned())], "people are told once");
}

#[test]
fn who_is_refused_tries_less_and_less_often_and_goes_on_when_there_is_room() {
    let mut cluster = Cluster::new(&[rules::REPLICA_SETS], Limits::default(), 100);
    cluster.create(&resource::REPLICA_SETS, replica_set("web", 300));
    cluster.run(300);
    assert_eq!(cluster.pods(), 100);
    let failure = cluster.failure();
    assert_eq!(
        (&failure["reason"], &failure["message"]),
        (&json!("FailedCreate"), &json!("forbidden: exceeded limit"))
    );
    // 1, 2, 4 and on at a time until one is refused, then one at a time at most every minute.
    let refused = cluster.creates - 100;
    assert!(refused <= 64 + 30, "{refused} were refused in five minutes");
    cluster.pods_max = usize::MAX;
    cluster.run(120);
    assert_eq!(cluster.pods(), 300);
    assert_eq!(cluster.failure(), Value::Null);
}

#[test]
fn stateful_sets_and_jobs_have_the_same_limit() {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut cluster = Cluster::new(&[rules::STATEFUL_SETS], LIMITS, usize::MAX);
    let spec = json!({"replicas": HUGE, "podManagementPolicy": "Parallel", "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}}, "template": template});
    cluster.create(
        &resource::STATEFUL_SETS,
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
    );
    cluster.run(10);
    assert_eq!(cluster.pods(), 20);
    let told = cluster.events.iter().filter(|(reason, _)| *reason == "FailedCreate").count();
    assert_eq!(told, 1, "{:?}", cluster.events);

    let mut cluster = Cluster::new(&[rules::JOBS], LIMITS, usize::MAX);
    let spec = json!({"parallelism": HUGE, "completions": HUGE, "completionMode": "NonIndexed",
        "selector": {"matchLabels": {"app": "web"}}, "template": template});
    cluster
        .create(&resource::JOBS, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}));
    cluster.run(10);
    assert_eq!(cluster.pods(), 20);
    let told = cluster.events.iter().filter(|(reason, _)| *reason == "FailedCreate").count();
    assert_eq!(told, 1, "{:?}", cluster.events);
}

#[test]
fn a_deployment_of_the_largest_size_is_rolled_without_an_overflow() {
    let mut cluster = Cluster::new(&[rules::DEPLOYMENTS, rules::REPLICA_SETS], LIMITS, usize::MAX);
    let template = |image: &str| json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}});
    let spec = json!({"replicas": i32::MAX, "selector": {"matchLabels": {"app": "web"}}, "template": template("i:1"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}});
    cluster.create(
        &resource::DEPLOYMENTS,
        json!({"metadata": {"name": "web", "namespace": "default", "generation": 1}, "spec": spec}),
    );
    cluster.run(5);
    let change = |deployment: &mut Value| deployment["spec"]["template"] = template("i:2");
    let changed = cluster.api.change(&resource::DEPLOYMENTS, "default", "web", change).unwrap();
    cluster.core.put(cluster.now, Object::parse(&resource::DEPLOYMENTS, &changed).unwrap());
    cluster.run(5);
    assert!(cluster.pods() <= 40, "{}", cluster.pods());
}
