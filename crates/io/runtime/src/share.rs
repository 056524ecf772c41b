//! Parts that many objects have in common are kept once: namespaces, nodes, owners, words of conditions, what the claims of one template ask for.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use lazaret_api::Object as Read;
use lazaret_model::{Allocation, ClaimSpec, ObjectKey, Owner, Pod, ResourceClaim, Text, Uid};

/// Texts that are remembered at most, about a megabyte of them. When there are more, all are forgotten: objects keep theirs.
const TEXTS_MAX: usize = 16_384;
/// A longer text is not remembered.
const TEXT_BYTES_MAX: usize = 128;
/// Claim specs that are kept for sharing: those of the most recently seen templates.
const SPECS_MAX: usize = 16;

/// Values that the objects of one resource share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    texts: HashSet<Text>,
    specs: VecDeque<Arc<ClaimSpec>>,
}

impl Shared {
    /// Replaces parts of an object by equal ones that others have. `key` and `uid` are its own.
    pub(crate) fn share(&mut self, key: &ObjectKey, uid: &Uid, object: &mut Read) {
        match object {
            Read::Pod(pod) => self.share_pod(key, uid, pod),
            Read::Claim(claim) => self.share_claim(key, uid, claim),
            // They are few, or are not kept for long.
            Read::Slice(_)
            | Read::Class(_)
            | Read::Template(_)
            | Read::Rule(_)
            | Read::Patch(_)
            | Read::Group(_)
            | Read::Node(_)
            | Read::Other(_) => {}
        }
    }

    pub(crate) fn text(&mut self, text: &mut Text) {
        if let Some(known) = self.texts.get(text.as_str()) {
            *text = known.clone();
        } else if text.len() <= TEXT_BYTES_MAX {
            if self.texts.len() >= TEXTS_MAX {
                self.texts.clear();
            }
            self.texts.insert(text.clone());
        }
    }

    fn share_pod(&mut self, key: &ObjectKey, uid: &Uid, pod: &mut Pod) {
        identify(key, uid, &mut pod.key, &mut pod.uid);
        self.owner(pod.owner.as_mut());
        pod.node.iter_mut().chain(&mut pod.nominated).for_each(|text| self.text(text));
        for condition in &mut pod.conditions {
            self.text(&mut condition.kind);
            self.text(&mut condition.reason);
            self.text(&mut condition.message);
        }
    }

    fn share_claim(&mut self, key: &ObjectKey, uid: &Uid, claim: &mut ResourceClaim) {
        identify(key, uid, &mut claim.key, &mut claim.uid);
        if let Some(owner) = &mut claim.owner {
            self.text(&mut owner.group);
            self.text(&mut owner.kind);
        }
        self.spec(&mut claim.spec);
        if let Some(allocation) = claim.allocation.as_mut().and_then(Arc::get_mut) {
            self.allocation(allocation);
        }
        for consumer in &mut claim.reserved_for {
            self.text(&mut consumer.api_group);
            self.text(&mut consumer.resource);
            // Most claims are reserved for the pod that owns them.
            if let Some(owner) = claim.owner.as_ref().filter(|owner| owner.uid == consumer.uid) {
                consumer.uid = owner.uid.clone();
                if consumer.name == owner.name {
                    consumer.name = owner.name.clone();
                }
            }
        }
    }

    fn spec(&mut self, spec: &mut Arc<ClaimSpec>) {
        if let Some(known) = self.specs.iter().find(|known| **known == *spec) {
            *spec = Arc::clone(known);
            return;
        }
        if self.specs.len() >= SPECS_MAX {
            self.specs.pop_front();
        }
        self.specs.push_back(Arc::clone(spec));
    }

    fn allocation(&mut self, allocation: &mut Allocation) {
        for result in &mut allocation.results {
            self.text(&mut result.request);
            self.text(&mut result.device.driver);
            self.text(&mut result.device.pool);
            self.text(&mut result.device.device);
        }
        let terms = allocation.node_selector.iter_mut().flat_map(|selector| &mut selector.terms);
        for requirement in
            terms.flat_map(|term| term.match_fields.iter_mut().chain(&mut term.match_expressions))
        {
            self.text(&mut requirement.key);
            requirement.values.iter_mut().for_each(|value| self.text(value));
        }
    }

    fn owner(&mut self, owner: Option<&mut Owner>) {
        if let Some(Owner { group, kind, name, uid }) = owner {
            [group, kind, name, uid].into_iter().for_each(|text| self.text(text));
        }
    }
}

/// The object's own key and UID are known already.
fn identify(key: &ObjectKey, uid: &Uid, read_key: &mut ObjectKey, read_uid: &mut Uid) {
    if read_key == key {
        *read_key = key.clone();
    }
    if read_uid == uid {
        *read_uid = uid.clone();
    }
}

#[cfg(test)]
mod tests {
    use lazaret_model::ClaimSource;

    use super::*;
    use crate::{CLAIMS, Model, Object, PODS, object::DecodeCache};

    fn object(cache: &Arc<DecodeCache>, resource: &crate::Resource, text: &str) -> Object {
        Object::new(resource, text).unwrap().kept_in(cache)
    }

    fn is_same(one: &Text, other: &Text) -> bool {
        one == other && one.as_str().as_ptr() == other.as_str().as_ptr()
    }

    #[test]
    fn pods_of_one_owner_share_what_they_have_in_common() {
        let cache = Arc::default();
        let [a, b] = ["a", "b"].map(|name| {
            let owner =
                r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru","controller":true}"#;
            let metadata = format!(
                r#"{{"name":"{name}","namespace":"n","uid":"u-{name}","ownerReferences":[{owner}]}}"#
            );
            let status =
                r#"{"conditions":[{"type":"Ready","status":"True","reason":"Well","message":"It is"}]}"#;
            let spec =
                r#"{"nodeName":"node-1","resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"t"}]}"#;
            object(&cache, &PODS, &format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{status}}}"#))
        });
        let (Ok(Model::Pod(one)), Ok(Model::Pod(other))) = (a.model(), b.model()) else { panic!("two pods") };
        assert_eq!((one.key.to_string(), other.key.to_string()), ("n/a".into(), "n/b".into()));
        assert!(is_same(&one.key.name, &a.key.name) && is_same(&one.uid, &a.uid));
        let parts = |pod: &Pod| {
            let (owner, condition) = (pod.owner.clone().unwrap(), pod.conditions[0].clone());
            let ClaimSource::Template { template, .. } = pod.claims[0].source.clone() else { panic!() };
            let texts = [owner.group, owner.kind, owner.name, owner.uid, condition.kind, condition.reason];
            let more = [condition.message, pod.claims[0].name.clone(), template, pod.node.clone().unwrap()];
            [texts.to_vec(), more.to_vec(), vec![pod.key.namespace.clone()]].concat()
        };
        for (one, other) in parts(one).iter().zip(&parts(other)) {
            assert!(is_same(one, other), "{one}");
        }
    }

    #[test]
    fn claims_of_one_template_share_what_they_ask_for_and_others_do_not() {
        let cache = Arc::default();
        let [a, b, c] = ["x", "x", "y"].map(|class| {
            let requests = format!(r#"[{{"name":"r","exactly":{{"deviceClassName":"{class}"}}}}]"#);
            let metadata = r#"{"name":"c","namespace":"n","uid":"u"}"#;
            let spec = format!(r#"{{"devices":{{"requests":{requests}}}}}"#);
            let read = object(&cache, &CLAIMS, &format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#));
            let Ok(Model::Claim(claim)) = read.model() else { panic!("a claim") };
            Arc::clone(&claim.spec)
        });
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c) && a != c);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shared = Shared::default();
        for number in 0..=TEXTS_MAX {
            shared.text(&mut number.to_string().into());
        }
        assert_eq!(shared.texts.len(), 1);
        shared.text(&mut "x".repeat(TEXT_BYTES_MAX + 1).into());
        assert_eq!(shared.texts.len(), 1);
    }
}
