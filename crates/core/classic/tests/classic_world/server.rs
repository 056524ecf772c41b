//! An API server, as far as classic claims matter: versions, finalizers, owners, watches.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_classic::{
    AskNode, ClaimStatus, CreateClaim, News, Pod, Reference, ResourceClaim, ResourceClass, Step,
    validate_claim_status_update,
};
use lazaret_machine::Outcome;
use lazaret_model::{Node, NodeReport, ObjectKey, Text, Uid};

/// Pods, claims, and all others are watched independently.
pub(crate) const KINDS: usize = 3;

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) pods: BTreeMap<ObjectKey, Pod>,
    pub(crate) claims: BTreeMap<ObjectKey, ResourceClaim>,
    pub(crate) classes: BTreeMap<Text, ResourceClass>,
    pub(crate) nodes: BTreeMap<Text, Node>,
    /// Questions to nodes about claims that are prepared on them, and their answers.
    pub(crate) reports: BTreeMap<Text, NodeReport>,
    pub(crate) log: [Vec<News>; KINDS],
    pub(crate) last: u64,
    /// A write that the rules refuse: no machine may try one.
    pub(crate) refused: Option<String>,
    /// Mutant: preconditions on versions are not looked at.
    pub(crate) ignores_versions: bool,
}

impl Server {
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A new UID.
    pub(crate) fn uid(&mut self) -> Uid {
        format!("uid-{}", self.next()).into()
    }

    pub(crate) fn put_pod(&mut self, pod: Pod) {
        self.log[0].push(News::Pod(Arc::new(pod.clone())));
        self.pods.insert(pod.key.clone(), pod);
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) {
        if let Some(pod) = self.pods.remove(key) {
            self.log[0].push(News::PodGone(pod.key, pod.uid));
        }
    }

    pub(crate) fn put_claim(&mut self, mut claim: ResourceClaim) -> Text {
        claim.version = self.next().to_string().into();
        let version = claim.version.clone();
        if claim.deleting && claim.finalizers.is_empty() {
            self.claims.remove(&claim.key);
            self.log[1].push(News::ClaimGone(claim.key, claim.uid));
        } else {
            self.log[1].push(News::Claim(Arc::new(claim.clone())));
            self.claims.insert(claim.key.clone(), claim);
        }
        version
    }

    pub(crate) fn delete_claim(&mut self, key: &ObjectKey) {
        let Some(claim) = self.claims.get(key).filter(|claim| !claim.deleting) else { return };
        let mut claim = claim.clone();
        claim.deleting = true;
        self.put_claim(claim);
    }

    /// Deletes this incarnation of a claim.
    pub(crate) fn delete_claim_of(&mut self, key: &ObjectKey, uid: &Uid) -> Outcome {
        if self.claims.get(key).is_none_or(|claim| claim.uid != *uid) {
            return Outcome::Gone;
        }
        self.delete_claim(key);
        Outcome::Done
    }

    pub(crate) fn put_class(&mut self, class: ResourceClass) {
        self.log[2].push(News::Class(Arc::new(class.clone())));
        self.classes.insert(class.name.clone(), class);
    }

    pub(crate) fn remove_class(&mut self, name: &Text) {
        if self.classes.remove(name).is_some() {
            self.log[2].push(News::ClassGone(name.clone()));
        }
    }

    pub(crate) fn put_node(&mut self, name: &Text) {
        let node = Node { name: name.clone(), ..Node::default() };
        self.log[2].push(News::Node(Arc::new(node.clone())));
        self.nodes.insert(name.clone(), node);
        self.put_report(NodeReport { name: name.clone(), reports: true, ..NodeReport::default() });
    }

    pub(crate) fn put_report(&mut self, mut report: NodeReport) {
        report.version = self.next().to_string().into();
        self.log[2].push(News::Report(Arc::new(report.clone())));
        self.reports.insert(report.name.clone(), report);
    }

    pub(crate) fn ask(&mut self, ask: &AskNode) -> Outcome {
        let Some(report) = self.reports.get(&ask.node).cloned() else { return Outcome::Gone };
        if report.version != ask.version && !self.ignores_versions {
            return Outcome::Conflict;
        }
        self.put_report(NodeReport { awaiting: ask.awaiting.clone(), ..report });
        Outcome::Done
    }

    /// Everything that there is now.
    pub(crate) fn list(&self) -> Vec<News> {
        let nodes = self.nodes.values().map(|node| News::Node(Arc::new(node.clone())));
        let classes = self.classes.values().map(|class| News::Class(Arc::new(class.clone())));
        let claims = self.claims.values().map(|claim| News::Claim(Arc::new(claim.clone())));
        let pods = self.pods.values().map(|pod| News::Pod(Arc::new(pod.clone())));
        let reports = self.reports.values().map(|report| News::Report(Arc::new(report.clone())));
        nodes.chain(classes).chain(claims).chain(pods).chain(reports).collect()
    }

    pub(crate) fn create(&mut self, create: &CreateClaim) -> Outcome {
        if let Some(claim) = self.claims.get(&create.claim) {
            return if claim.is_owned_by(&create.owner.uid) { Outcome::Done } else { Outcome::Conflict };
        }
        let claim = ResourceClaim {
            key: create.claim.clone(),
            uid: self.uid(),
            owners: vec![create.owner.clone()],
            spec: create.template.spec.clone(),
            ..ResourceClaim::default()
        };
        self.put_claim(claim);
        Outcome::Done
    }

    /// One write to a claim, and the version that it left.
    pub(crate) fn write(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: &Text,
        step: &Step,
    ) -> (Outcome, Text) {
        let Some(old) = self.claims.get(key).filter(|claim| claim.uid == *uid) else {
            return (Outcome::Gone, Text::default());
        };
        if old.version != *version && !self.ignores_versions {
            return (Outcome::Conflict, Text::default());
        }
        let mut new = old.clone();
        match step {
            Step::SetFinalizers(finalizers) => new.finalizers.clone_from(finalizers),
            Step::SetStatus(status) => {
                let errors = validate_claim_status_update(old, status);
                if let Some(error) = errors.first() {
                    self.refused = Some(format!("{key}: {error}"));
                    return (Outcome::Refused, Text::default());
                }
                new.status = (**status).clone();
            }
        }
        if new == *old {
            return (Outcome::Done, old.version.clone());
        }
        let version = self.put_claim(new);
        (Outcome::Done, version)
    }

    /// A kubelet, or a controller of other users, changes who uses a claim.
    pub(crate) fn change_users(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Vec<Reference>)) {
        let Some(claim) = self.claims.get(key) else { return };
        let mut status: ClaimStatus = claim.status.clone();
        change(&mut status.reserved_for);
        let (uid, version) = (claim.uid.clone(), claim.version.clone());
        if validate_claim_status_update(claim, &status).is_empty() {
            self.write(key, &uid, &version, &Step::SetStatus(Box::new(status)));
        }
    }

    /// Deletes claims whose owners are all gone.
    pub(crate) fn collect_garbage(&mut self) -> bool {
        let exists = |owner: &Reference| self.pods.values().any(|pod| pod.uid == owner.uid);
        let garbage: Vec<ObjectKey> = self
            .claims
            .values()
            .filter(|claim| !claim.deleting && !claim.owners.is_empty() && !claim.owners.iter().any(exists))
            .map(|claim| claim.key.clone())
            .collect();
        garbage.iter().for_each(|key| self.delete_claim(key));
        !garbage.is_empty()
    }

    /// The claims of a pod.
    pub(crate) fn claims_of(&self, pod: &Pod) -> Vec<&ResourceClaim> {
        pod.claim_keys().iter().filter_map(|key| self.claims.get(key)).collect()
    }
}
