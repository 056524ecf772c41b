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
    told: BTreeMap<Resource, BTreeMap<ObjectKey, Told>>,
    /// The core reads models: of an object that cannot be decoded it keeps the last good version.
    reads_models: bool,
}

#[derive(Debug)]
struct Told {
    uid: Uid,
    /// The core holds what a version said that could be decoded.
    is_good: bool,
}

impl Ledger {
    /// For a core that takes models. An object that cannot be decoded is no change where the core holds its last good version.
    pub(crate) fn of_models() -> Self {
        Self { reads_models: true, ..Self::default() }
    }

    /// The single changes that these news consist of. An object whose name was reused is gone before the new one is set.
    pub(crate) fn changes(&mut self, news: News, mut tell: impl FnMut(Change)) {
        match news {
            News::Barred(..) => {}
            News::Set(resource, object) => self.set(resource, object, &mut tell),
            News::Gone(resource, object) => {
                let told = self.told.entry(resource).or_default();
                if told.get(&object.key).is_some_and(|told| told.uid == object.uid) {
                    told.remove(&object.key);
                }
                tell(Change::Gone(resource, object.key.clone(), object.uid.clone()));
            }
            News::Listed(resource, objects, _) => {
                let mut before = self.told.remove(&resource).unwrap_or_default();
                let (mut now, mut changed) = (BTreeMap::new(), Vec::with_capacity(objects.len()));
                for object in objects {
                    let (other, same) = split(before.remove(&object.key).as_ref(), &object.uid);
                    if let Some(uid) = other {
                        tell(Change::Gone(resource, object.key.clone(), uid));
                    }
                    let (told, is_change) = hear(self.reads_models, &object, same);
                    now.insert(object.key.clone(), told);
                    changed.extend(is_change.then_some(object));
                }
                self.told.insert(resource, now);
                for (key, told) in before {
                    tell(Change::Gone(resource, key, told.uid));
                }
                for object in changed {
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
        let (before, same) = split(told.get(&object.key), &object.uid);
        let (now, is_change) = hear(self.reads_models, &object, same);
        told.insert(object.key.clone(), now);
        if let Some(uid) = before {
            tell(Change::Gone(resource, object.key.clone(), uid));
        }
        if is_change {
            tell(Change::Set(resource, object));
        }
    }
}

/// Gives what a core holds once it has heard of a version, and whether the version is a change to it. `last_good`: it holds a good version of
/// this incarnation.
fn hear(reads_models: bool, object: &Object, last_good: bool) -> (Told, bool) {
    let (is_readable, is_change) = if reads_models {
        (object.unreadable().is_none(), object.reading(last_good).told().is_some())
    } else {
        (true, true)
    };
    (Told { uid: object.uid.clone(), is_good: is_readable || last_good && !is_change }, is_change)
}

/// The incarnation that is gone because there is another now, or whether the core holds a good version of the one that there is.
fn split(before: Option<&Told>, now: &Uid) -> (Option<Uid>, bool) {
    match before {
        Some(told) if told.uid == *now => (None, told.is_good),
        Some(told) => (Some(told.uid.clone()), false),
        None => (None, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_runtime::{CLAIMS, PODS};

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

    /// A claim that holds a device, as `spec` and `status` say.
    fn claim(uid: &str, spec: &str, status: &str) -> Arc<Object> {
        let metadata = format!(r#"{{"name":"c","namespace":"n","uid":"{uid}"}}"#);
        let text =
            format!(r#"{{"kind":"ResourceClaim","metadata":{metadata},"spec":{spec},"status":{status}}}"#);
        Arc::new(Object::new(&CLAIMS, text).unwrap())
    }

    #[test]
    fn the_last_good_version_stays_until_more_is_known() {
        let good = r#"{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x"}]}}}"#;
        let torn = r#"{"allocation":7}"#;
        let mut ledger = Ledger::of_models();
        let mut set = |object| heard(&mut ledger, News::Set(CLAIMS, object));
        assert_eq!(set(claim("1", "{}", torn)), "+c:1", "nothing better is known");
        assert_eq!(set(claim("1", "{}", good)), "+c:1");
        assert_eq!(set(claim("1", "7", good)), "+c:1", "it says what it holds");
        assert_eq!(set(claim("1", "{}", good)), "+c:1");
        assert_eq!(set(claim("1", "{}", torn)), "", "what it held stays");
        let listed = News::Listed(CLAIMS, vec![claim("1", "{}", torn)], 1);
        assert_eq!(heard(&mut ledger, listed), "", "and is not gone");
        assert_eq!(heard(&mut ledger, News::Set(CLAIMS, claim("2", "{}", torn))), "-c:1 +c:2");
    }
}
