//! The objects that a core without lists has received, so that a list can be passed to it object by object.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{ObjectKey, Uid};
use lazaret_runtime::{News, Object, Resource};

/// One object as it is now, or the incarnation that is gone.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(Resource, Arc<Object>),
    Gone(Resource, ObjectKey, Uid),
}

/// The incarnations that were told.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    told: BTreeMap<Resource, BTreeMap<ObjectKey, Uid>>,
}

impl Ledger {
    /// The single changes that these news consist of. An object whose name was reused is gone before the new one is set.
    pub(crate) fn changes(&mut self, news: News, mut tell: impl FnMut(Change)) {
        match news {
            News::Barred(..) => {}
            News::Set(resource, object) => self.set(resource, object, &mut tell),
            News::Gone(resource, object) => {
                let told = self.told.entry(resource).or_default();
                if told.get(&object.key) == Some(&object.uid) {
                    told.remove(&object.key);
                }
                tell(Change::Gone(resource, object.key.clone(), object.uid.clone()));
            }
            News::Listed(resource, objects, _) => {
                let mut before = self.told.remove(&resource).unwrap_or_default();
                let mut now = BTreeMap::new();
                for object in &objects {
                    if let Some(uid) = before.remove(&object.key).filter(|uid| *uid != object.uid) {
                        tell(Change::Gone(resource, object.key.clone(), uid));
                    }
                    now.insert(object.key.clone(), object.uid.clone());
                }
                self.told.insert(resource, now);
                for (key, uid) in before {
                    tell(Change::Gone(resource, key, uid));
                }
                for object in objects {
                    tell(Change::Set(resource, object));
                }
            }
        }
    }

    /// Nothing more will be told of a resource.
    pub(crate) fn forget(&mut self, resource: &Resource) {
        self.told.remove(resource);
    }

    fn set(&mut self, resource: Resource, object: Arc<Object>, tell: &mut impl FnMut(Change)) {
        let told = self.told.entry(resource).or_default();
        let before = told.insert(object.key.clone(), object.uid.clone());
        if let Some(uid) = before.filter(|uid| *uid != object.uid) {
            tell(Change::Gone(resource, object.key.clone(), uid));
        }
        tell(Change::Set(resource, object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_runtime::PODS;

    fn pod(name: &str, uid: &str) -> Arc<Object> {
        let text =
            format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"n","uid":"{uid}"}}}}"#);
        Arc::new(Object::new(&PODS, text).unwrap())
    }

    fn heard(ledger: &mut Ledger, news: News) -> String {
        let mut all = Vec::new();
        ledger.changes(news, |change| {
            all.push(match change {
                Change::Set(_, object) => format!("+{}:{}", object.key.name, object.uid),
                Change::Gone(_, key, uid) => format!("-{}:{uid}", key.name),
            });
        });
        all.join(" ")
    }

    #[test]
    fn a_list_says_what_is_gone_and_a_name_that_changed_hands_is_gone_first() {
        let mut ledger = Ledger::default();
        assert_eq!(
            heard(&mut ledger, News::Listed(PODS, vec![pod("a", "1"), pod("b", "2")], 1)),
            "+a:1 +b:2"
        );
        assert_eq!(heard(&mut ledger, News::Set(PODS, pod("a", "3"))), "-a:1 +a:3");
        assert_eq!(heard(&mut ledger, News::Listed(PODS, vec![pod("a", "4")], 1)), "-a:3 -b:2 +a:4");
        assert_eq!(heard(&mut ledger, News::Gone(PODS, pod("a", "4"))), "-a:4");
        assert_eq!(heard(&mut ledger, News::Listed(PODS, vec![], 1)), "");
    }
}
