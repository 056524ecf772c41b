//! News of claims and classes for the core, object by object.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_api::{read_classic_claim, read_classic_class};
use lazaret_classic::News;
use lazaret_model::{ObjectKey, Uid};
use lazaret_runtime::{CLASSIC_CLAIMS, CLASSIC_CLASSES, News as WatchNews, Object, Resource};
use tracing::warn;

/// The incarnations that the core has been told of: those that a list leaves out are gone.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    claims: BTreeMap<ObjectKey, Uid>,
    classes: BTreeMap<ObjectKey, Uid>,
}

impl KnownObjects {
    pub(super) fn apply(&mut self, heard: WatchNews, mut tell: impl FnMut(News)) {
        match heard {
            WatchNews::Barred(resource, why) => {
                warn!(kind = resource.kind, %why, "cannot be read: get, list and watch must be permitted");
            }
            WatchNews::Set(resource, object) => self.set(&resource, &object, &mut tell),
            WatchNews::Gone(resource, object) => self.gone(&resource, &object.key, &object.uid, &mut tell),
            WatchNews::Listed(resource, objects, _) => {
                let Some(known) = self.known(&resource) else { return };
                let mut left_out = known.clone();
                objects.iter().for_each(|object| {
                    if left_out.get(&object.key) == Some(&object.uid) {
                        left_out.remove(&object.key);
                    }
                });
                for (key, uid) in left_out {
                    self.gone(&resource, &key, &uid, &mut tell);
                }
                objects.iter().for_each(|object| self.set(&resource, object, &mut tell));
            }
        }
    }

    fn known(&mut self, resource: &Resource) -> Option<&mut BTreeMap<ObjectKey, Uid>> {
        if *resource == CLASSIC_CLAIMS {
            Some(&mut self.claims)
        } else if *resource == CLASSIC_CLASSES {
            Some(&mut self.classes)
        } else {
            None
        }
    }

    fn set(&mut self, resource: &Resource, object: &Object, tell: &mut impl FnMut(News)) {
        let Some(known) = self.known(resource) else { return };
        if let Some(before) = known.get(&object.key).filter(|uid| **uid != object.uid).cloned() {
            self.gone(resource, &object.key, &before, tell);
        }
        let news = if *resource == CLASSIC_CLAIMS {
            read_classic_claim(object.json()).map(|claim| News::Claim(Arc::new(claim)))
        } else {
            read_classic_class(object.json()).map(|class| News::Class(Arc::new(class)))
        };
        match news {
            Some(news) => {
                self.known(resource).map(|known| known.insert(object.key.clone(), object.uid.clone()));
                tell(news);
            }
            None => {
                object.cannot_be_read(
                    &"it has not the form of its kind",
                    "its last good version if one was read",
                );
            }
        }
    }

    fn gone(&mut self, resource: &Resource, key: &ObjectKey, uid: &Uid, tell: &mut impl FnMut(News)) {
        let Some(known) = self.known(resource) else { return };
        if known.get(key) == Some(uid) {
            known.remove(key);
            tell(if *resource == CLASSIC_CLAIMS {
                News::ClaimGone(key.clone(), uid.clone())
            } else {
                News::ClassGone(key.name.clone())
            });
        }
    }
}
