//! The annotations of namespaces about the eviction of their pods.

use std::collections::BTreeMap;

use lazaret_api::EVICTION_SAY;
use lazaret_model::{EvictionPreference, Text};
use lazaret_runtime::{NAMESPACES, News, Object};
use serde::Deserialize;

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    /// Another encoder may write null for what is empty.
    annotations: Option<BTreeMap<String, String>>,
}

/// Namespaces with a preference.
#[derive(Debug, Default)]
pub(crate) struct NamespacePreferences {
    pub(crate) preferences: BTreeMap<Text, EvictionPreference>,
    /// The core has not been told.
    pub(crate) is_news: bool,
}

impl NamespacePreferences {
    /// Takes note. Whether it was about namespaces.
    pub(crate) fn hear(&mut self, news: &News) -> bool {
        let before = self.preferences.clone();
        match news {
            News::Listed(resource, objects, _) if *resource == NAMESPACES => {
                self.preferences = objects
                    .iter()
                    .filter_map(|object| Some((object.key.name.clone(), preference(object)?)))
                    .collect();
            }
            News::Set(resource, object) if *resource == NAMESPACES => {
                match preference(object) {
                    Some(preference) => self.preferences.insert(object.key.name.clone(), preference),
                    None => self.preferences.remove(&object.key.name),
                };
            }
            News::Gone(resource, object) if *resource == NAMESPACES => {
                self.preferences.remove(&object.key.name);
            }
            // Without permission to read namespaces, only the annotations of pods count.
            News::Barred(resource, _) if *resource == NAMESPACES => self.preferences.clear(),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => return false,
        }
        self.is_news |= before != self.preferences;
        true
    }
}

fn preference(object: &Object) -> Option<EvictionPreference> {
    let wire: Wire = serde_json::from_slice(object.json()).ok()?;
    EvictionPreference::parse(wire.metadata.annotations?.get(EVICTION_SAY)?)
}
