//! News of objects become inputs of a fleet.

use std::{collections::BTreeSet, sync::Arc};

use lazaret_fleet::{Fleet, Gates, Input, Kind};
use lazaret_runtime::{
    CLAIMS, CLASSES, CallError, Client, Model, NODES, News, Object, PATCHES, POD_GROUPS, PODS,
    POOL_STATUS_REQUESTS, RULES, RULES_V1ALPHA3, RULES_V1BETA2, Resource, SLICES, SLICES_V1ALPHA3,
    TAINT_POLICIES,
};

/// The resources that a fleet is built from. The widest version is taken where the server has it.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    wide: bool,
    groups: bool,
    pool_status_requests: bool,
    /// The rules of Kubernetes, in the best version that is served; `None` where they are not served at all.
    plain_rules: Option<Resource>,
    /// Policies stand in the place of rules, and only they taint.
    policies: bool,
    /// Classic claims count.
    classic: bool,
    gates: Gates,
}

/// Why nothing can be tainted by rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRules {
    /// No version of DeviceTaintRules is served.
    NotServed,
    /// A feature gate is off: rules would be stored, and no scheduler would obey them.
    Off,
}

impl NoRules {
    /// For programs.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NotServed => "RulesNotServed",
            Self::Off => "RulesOff",
        }
    }

    /// For people.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NotServed => {
                "DeviceTaintRules are not served: Kubernetes 1.37 serves them by default, 1.36 with --runtime-config=resource.k8s.io/v1beta2=true, 1.34 and 1.35 with resource.k8s.io/v1alpha3=true; then start lazaret run again"
            }
            Self::Off => {
                "the feature gate DRADeviceTaintRules (in Kubernetes 1.34: DRADeviceTaints) is off or not known to be on, and without it no scheduler obeys DeviceTaintRules; once it is on: lazaret run --feature-gates=DRADeviceTaintRules=true"
            }
        }
    }
}

impl Sources {
    /// The resources that a server has. It may serve a part of `resource.k8s.io/v1alpha3`, as Kubernetes does: then the stable version is taken.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn of(client: &Client) -> Result<Self, CallError> {
        let mut wide = true;
        for resource in [RULES_V1ALPHA3, SLICES_V1ALPHA3, PATCHES] {
            wide = wide && client.serves(&resource).await?;
        }
        let pool_status_requests = client.serves(&POOL_STATUS_REQUESTS).await?;
        let mut plain_rules = None;
        for resource in [RULES, RULES_V1BETA2, RULES_V1ALPHA3] {
            if client.serves(&resource).await? {
                plain_rules = Some(resource);
                break;
            }
        }
        Ok(Self {
            pool_status_requests,
            plain_rules,
            ..Self::new(wide).with_groups(client.serves(&POD_GROUPS).await?)
        })
    }

    /// Of a server that serves `resource.k8s.io/v1alpha3` with all that is Lazaret's own, or one that does not.
    #[must_use]
    pub fn new(wide: bool) -> Self {
        Self {
            wide,
            groups: false,
            pool_status_requests: false,
            plain_rules: Some(RULES),
            policies: false,
            classic: false,
            gates: Gates::default(),
        }
    }

    /// Whether the server serves groups of pods.
    #[must_use]
    pub fn with_groups(self, groups: bool) -> Self {
        Self { groups, ..self }
    }

    /// The feature gates of device taints. Rules without effect are not read: the server may not even serve them.
    #[must_use]
    pub fn with_gates(self, gates: Gates) -> Self {
        Self { gates: Gates { rules: gates.rules && self.serves_rules(), ..gates }, ..self }
    }

    /// Whether rules count that are not served in v1: their gate may be off, and the server says it only in its metrics.
    pub(crate) fn with_unstable_rules(self, count: bool) -> Self {
        let rules = self.gates.rules && (count || self.plain_rules() == RULES);
        Self { gates: Gates { rules, ..self.gates }, ..self }
    }

    /// Whether rules would count if the server served them.
    pub(crate) fn lacks_rules(self, gates: Gates) -> bool {
        gates.has_rules() && !self.serves_rules()
    }

    /// The same with policies in the place of rules: taints by drivers, patches and rules of Kubernetes are left to the other eviction controller.
    pub(crate) fn for_policies(self) -> Self {
        Self { policies: true, ..self }
    }

    /// Why nothing can be tainted by rules, if it cannot.
    pub(crate) fn why_no_rules(self) -> Option<NoRules> {
        match (self.serves_rules(), self.gates.has_rules()) {
            (false, _) => Some(NoRules::NotServed),
            (true, false) => Some(NoRules::Off),
            (true, true) => None,
        }
    }

    fn serves_rules(self) -> bool {
        self.plain_rules.is_some()
    }

    /// The rules that Kubernetes' own scheduler obeys, to be read and written. Kubernetes 1.37 has them in v1, 1.36 in v1beta2, releases
    /// before in v1alpha3; their names, selectors by name and taints are the same in all of them.
    pub(crate) fn plain_rules(self) -> Resource {
        self.plain_rules.unwrap_or(RULES)
    }

    /// Whether the status of a rule counts evictions: what Kubernetes serves does not.
    pub(crate) fn counts_evictions(self) -> bool {
        self.policies || self.wide
    }

    /// Whether classic claims are served, and count.
    #[must_use]
    pub fn with_classic(self, classic: bool) -> Self {
        Self { classic, ..self }
    }

    pub(crate) fn has_classic(self) -> bool {
        self.classic
    }

    pub(crate) fn gates(self) -> Gates {
        self.gates
    }

    pub(crate) fn has_groups(self) -> bool {
        self.groups
    }

    pub(crate) fn has_pool_status_requests(self) -> bool {
        self.pool_status_requests
    }

    pub(crate) fn has_patches(self) -> bool {
        self.wide && !self.policies
    }

    /// The resource to read slices from.
    pub(crate) fn slices(self) -> Resource {
        if self.wide { SLICES_V1ALPHA3 } else { SLICES }
    }

    /// The resources that a fleet hears of.
    #[must_use]
    pub fn resources(self) -> Vec<Resource> {
        let mut resources = vec![CLASSES, CLAIMS, PODS, NODES];
        resources.push(self.slices());
        if self.has_patches() {
            resources.push(PATCHES);
        }
        if self.gates.has_rules() {
            resources.push(self.rules());
        }
        resources
    }

    /// The resource to write a rule's status through.
    #[must_use]
    pub fn rules(self) -> Resource {
        match (self.policies, self.wide) {
            (true, _) => TAINT_POLICIES,
            (false, true) => RULES_V1ALPHA3,
            (false, false) => self.plain_rules(),
        }
    }

    /// Tells a fleet what was heard.
    pub(crate) fn feed(self, fleet: &mut Fleet, news: &News) {
        self.feed_with(fleet, news, |input, _| input, |_| Vec::new());
    }

    /// The same. `as_meant` says what an object is to the fleet, and `more` what belongs to a list besides.
    pub(crate) fn feed_with(
        self,
        fleet: &mut Fleet,
        news: &News,
        as_meant: impl Fn(Input, &Object) -> Input,
        more: impl FnOnce(Kind) -> Vec<Input>,
    ) {
        let tainting = |input| if self.policies { only_policies_taint(input) } else { input };
        feed_as(fleet, news, |input, object| as_meant(tainting(input), object), more);
    }
}

/// Tells a fleet what was heard. News of what it does not know are no news.
pub(crate) fn feed(fleet: &mut Fleet, news: &News) {
    feed_as(fleet, news, |input, _| input, |_| Vec::new());
}

/// Tells a fleet, in which policies are the rules, what was heard: nothing else taints.
pub(crate) fn feed_policies(fleet: &mut Fleet, news: &News) {
    feed_as(fleet, news, |input, _| only_policies_taint(input), |_| Vec::new());
}

fn only_policies_taint(input: Input) -> Input {
    if let Input::Slice(slice) = &input {
        let mut bare = (**slice).clone();
        bare.taints.clear();
        bare.devices.iter_mut().for_each(|device| device.taints.clear());
        return Input::Slice(Arc::new(bare));
    }
    // No server fills it in for a kind that it does not know.
    if let Input::Rule(rule) = &input
        && rule.taint.time_added.is_none()
    {
        let mut rule = (**rule).clone();
        rule.taint.time_added = rule.created;
        return Input::Rule(Arc::new(rule));
    }
    input
}

fn feed_as(
    fleet: &mut Fleet,
    news: &News,
    as_meant: impl Fn(Input, &Object) -> Input,
    more: impl FnOnce(Kind) -> Vec<Input>,
) {
    let said =
        |fleet: &Fleet, kind, object: &Object| said(fleet, kind, object).map(|input| as_meant(input, object));
    match news {
        News::Barred(..) => {}
        News::Listed(resource, objects, _) => {
            if let Some(kind) = kind(resource) {
                let (mut inputs, mut kept) = (Vec::with_capacity(objects.len()), BTreeSet::new());
                for object in objects {
                    match said(fleet, kind, object) {
                        Said::Now(input) => inputs.push(input),
                        Said::AsBefore => drop(kept.insert(object.key.clone())),
                        Said::Nothing => {}
                    }
                }
                inputs.extend(more(kind));
                fleet.relist_keeping(kind, inputs, &kept);
            }
        }
        News::Set(resource, object) => {
            if let Some(kind) = kind(resource) {
                match said(fleet, kind, object) {
                    Said::Now(input) => fleet.apply(input),
                    Said::AsBefore => {}
                    Said::Nothing => fleet.apply(gone(kind, object)),
                }
            }
        }
        News::Gone(resource, object) => {
            if let Some(kind) = kind(resource) {
                fleet.apply(gone(kind, object));
            }
        }
    }
}

/// The news that an object is to a fleet.
enum Said {
    Now(Input),
    /// It cannot be decoded: what the fleet holds of it stays.
    AsBefore,
    /// Neither can it be decoded nor is anything known of it; or it is of a kind that a fleet does not know.
    Nothing,
}

impl Said {
    fn map(self, change: impl FnOnce(Input) -> Input) -> Self {
        match self {
            Self::Now(input) => Self::Now(change(input)),
            Self::AsBefore | Self::Nothing => self,
        }
    }
}

fn said(fleet: &Fleet, kind: Kind, object: &Object) -> Said {
    let last_good = object.unreadable().is_some() && holds(fleet, kind, object);
    match object.reading(last_good).told().and_then(input) {
        Some(input) => Said::Now(input),
        None if last_good => Said::AsBefore,
        None => Said::Nothing,
    }
}

/// Whether the fleet was told of this incarnation; of objects of the cluster it knows the names alone.
fn holds(fleet: &Fleet, kind: Kind, object: &Object) -> bool {
    match kind {
        Kind::Claim => {
            let held = fleet.claim_ix(&object.key).and_then(|claim| fleet.claim(claim));
            held.is_some_and(|claim| claim.uid == object.uid)
        }
        Kind::Pod => {
            let held = fleet.pod_ix(&object.key).and_then(|pod| fleet.pod(pod));
            held.is_some_and(|pod| pod.uid == object.uid)
        }
        Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => fleet.holds(kind, &object.key),
    }
}

pub(crate) fn kind(resource: &Resource) -> Option<Kind> {
    if resource.group == lazaret_api::CLASSIC_GROUP {
        return None;
    }
    Some(match resource.plural {
        "resourceslices" => Kind::Slice,
        "devicetaintrules" | "devicetaintpolicies" => Kind::Rule,
        "resourceslicepatches" => Kind::Patch,
        "deviceclasses" => Kind::Class,
        "resourceclaims" => Kind::Claim,
        "pods" => Kind::Pod,
        "nodes" => Kind::Node,
        _ => return None,
    })
}

fn input(model: &Model) -> Option<Input> {
    Some(match model {
        Model::Slice(slice) => Input::Slice(slice.clone()),
        Model::Class(class) => Input::Class(class.clone()),
        Model::Claim(claim) => Input::Claim(claim.clone()),
        Model::Rule(rule) => Input::Rule(rule.clone()),
        Model::Patch(patch) => Input::Patch(patch.clone()),
        Model::Pod(pod) => Input::Pod(pod.clone()),
        Model::Node(node) => Input::Node(node.clone()),
        Model::Template(_) | Model::Group(_) | Model::Other => return None,
    })
}

fn gone(kind: Kind, object: &Object) -> Input {
    let (key, name) = (object.key.clone(), object.key.name.clone());
    match kind {
        Kind::Slice => Input::SliceGone(name),
        Kind::Rule => Input::RuleGone(name),
        Kind::Patch => Input::PatchGone(name),
        Kind::Class => Input::ClassGone(name),
        Kind::Claim => Input::ClaimGone(key),
        Kind::Pod => Input::PodGone(key),
        Kind::Node => Input::NodeGone(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_model::DeviceId;

    fn object(resource: &Resource, text: &str) -> Arc<Object> {
        Arc::new(Object::new(resource, text).unwrap())
    }

    /// A claim that holds device x, with these parameters of a driver.
    fn claim(parameters: &str) -> Arc<Object> {
        object(
            &CLAIMS,
            &format!(
                r#"{{"metadata":{{"name":"c","namespace":"n","uid":"c1"}},
                "spec":{{"devices":{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"gpu"}}}}],
                "config":[{{"opaque":{{"driver":"d","parameters":{parameters}}}}}]}}}},
                "status":{{"allocation":{{"devices":{{"results":[{{"request":"r","driver":"d","pool":"p","device":"x"}}]}}}}}}}}"#
            ),
        )
    }

    fn holders(fleet: &Fleet) -> usize {
        fleet.holders(&DeviceId::new("d", "p", "x")).count()
    }

    #[test]
    fn a_claim_that_cannot_be_read_keeps_its_device() {
        let unreadable = claim(&format!(r#"{{"a":"{}"}}"#, "x".repeat(10 * 1024)));
        assert!(unreadable.unreadable().is_some());
        let mut fleet = Fleet::default();
        for news in [
            News::Listed(CLAIMS, vec![Arc::clone(&unreadable)], 1),
            News::Set(CLAIMS, Arc::clone(&unreadable)),
            News::Set(CLAIMS, claim("{}")),
            News::Set(CLAIMS, Arc::clone(&unreadable)),
            News::Listed(CLAIMS, vec![unreadable], 2),
        ] {
            feed(&mut fleet, &news);
            assert_eq!(holders(&fleet), 1, "{news:?}");
        }
        feed(&mut fleet, &News::Listed(CLAIMS, Vec::new(), 3));
        assert_eq!(holders(&fleet), 0, "it is gone");
    }

    #[test]
    fn a_rule_and_a_slice_that_cannot_be_read_stay_as_they_were() {
        let slice = |attributes: &str| {
            let metadata = r#"{"name":"s","uid":"s1"}"#;
            let pool = r#"{"name":"p","generation":1,"resourceSliceCount":1}"#;
            object(
                &SLICES,
                &format!(
                    r#"{{"metadata":{metadata},"spec":{{"driver":"d","nodeName":"n1","pool":{pool},"devices":[{{"name":"x","attributes":{attributes}}}]}}}}"#
                ),
            )
        };
        let rule = |spec: &str| {
            object(&RULES, &format!(r#"{{"metadata":{{"name":"r","uid":"r1"}},"spec":{spec}}}"#))
        };
        let good =
            r#"{"deviceSelector":{"driver":"d","device":"x"},"taint":{"key":"k","effect":"NoExecute"}}"#;
        let bad = r#"{"deviceSelector":{"driver":"d","device":"x"},"taint":{"key":"k","effect":"NoExecute","timeAdded":7}}"#;
        let effects = |fleet: &Fleet| {
            let taints = fleet.effective_taints(&DeviceId::new("d", "p", "x"));
            taints.map(|one| one.taint.effect.name().to_owned()).collect::<Vec<_>>()
        };
        let mut fleet = Fleet::default();
        feed(&mut fleet, &News::Listed(SLICES, vec![slice("{}")], 1));
        feed(&mut fleet, &News::Listed(RULES, vec![rule(good)], 1));
        for news in [
            News::Set(RULES, rule(bad)),
            News::Listed(RULES, vec![rule(bad)], 2),
            News::Set(SLICES, slice("7")),
            News::Listed(SLICES, vec![slice("7")], 3),
        ] {
            feed(&mut fleet, &news);
            assert_eq!(effects(&fleet), ["NoExecute"], "{news:?}");
        }
        // A process that has seen no good version gives nothing out, and evicts nobody.
        let mut fresh = Fleet::default();
        feed(&mut fresh, &News::Listed(SLICES, vec![slice("7")], 1));
        feed(&mut fresh, &News::Listed(RULES, vec![rule(bad)], 1));
        assert_eq!(effects(&fresh), ["NoSchedule"]);
        assert!(fresh.device(&DeviceId::new("d", "p", "x")).is_some());
    }

    /// A server whose `resource.k8s.io/v1alpha3` has these resources, and no groups of pods.
    fn server(plurals: &'static [&'static str]) -> Client {
        server_of("v1alpha3", plurals)
    }

    /// A server that has these resources in this version of `resource.k8s.io`.
    fn server_of(version: &'static str, plurals: &'static [&'static str]) -> Client {
        Client::direct(move |request| async move {
            let alpha = request.uri().path() == format!("/apis/resource.k8s.io/{version}");
            let resources: Vec<_> = plurals.iter().map(|name| serde_json::json!({"name": name})).collect();
            let mut answer = http::Response::new(serde_json::json!({"resources": resources}).to_string());
            if !alpha {
                *answer.status_mut() = http::StatusCode::NOT_FOUND;
            }
            answer
        })
    }

    #[tokio::test]
    async fn a_part_of_the_wide_version_is_not_enough() {
        let all = &["devicetaintrules", "resourceslices", "resourceslicepatches"];
        let wide = Sources::of(&server(all)).await.unwrap();
        assert_eq!(wide.rules(), RULES_V1ALPHA3);
        let kubernetes = Sources::of(&server(&["devicetaintrules"])).await.unwrap();
        assert_eq!(kubernetes.rules(), RULES_V1ALPHA3, "as Kubernetes 1.34 and 1.35 have them");
        assert!(!kubernetes.counts_evictions() && wide.counts_evictions());
        assert!(kubernetes.resources().contains(&SLICES) && !kubernetes.resources().contains(&PATCHES));
    }

    #[tokio::test]
    async fn rules_are_read_and_written_in_the_best_version_that_is_served() {
        for (version, wanted) in [("v1", RULES), ("v1beta2", RULES_V1BETA2), ("v1alpha3", RULES_V1ALPHA3)] {
            let sources = Sources::of(&server_of(version, &["devicetaintrules"])).await.unwrap();
            assert_eq!((sources.plain_rules(), sources.rules()), (wanted, wanted));
            let sources = sources.with_gates(Gates::default());
            assert_eq!(sources.with_unstable_rules(true).why_no_rules(), None, "{version}");
            let off = (version != "v1").then_some(NoRules::Off);
            assert_eq!(sources.with_unstable_rules(false).why_no_rules(), off, "{version}");
        }
    }

    /// Waiting for a resource that is not served would be waiting for ever.
    #[tokio::test]
    async fn rules_that_are_not_served_are_not_waited_for() {
        let old = Sources::of(&server(&[])).await.unwrap();
        assert!(old.lacks_rules(Gates::default()));
        assert_eq!(old.with_gates(Gates::default()).why_no_rules(), Some(NoRules::NotServed));
        assert!(!old.with_gates(Gates::default()).resources().contains(&RULES));
        let wide =
            Sources::of(&server(&["devicetaintrules", "resourceslices", "resourceslicepatches"])).await;
        assert!(!wide.unwrap().lacks_rules(Gates::default()));
    }
}
