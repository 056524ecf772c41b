//! The annotations of namespaces about the eviction of their pods.

use std::collections::BTreeMap;

use lazaret_api::EVICTION_SAY;
use lazaret_model::{EvictionSay, Text};
use lazaret_runtime::{NAMESPACES, News, Object};
use serde::Deserialize;

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Namespaces that say something.
#[derive(Debug, Default)]
pub(crate) struct NamespaceSays {
    pub(crate) says: BTreeMap<Text, EvictionSay>,
    /// The core has not been told.
    pub(crate) is_news: bool,
}

impl NamespaceSays {
    /// Takes note. Whether it was about namespaces.
    pub(crate) fn hear(&mut self, news: &News) -> bool {
        let before = self.says.clone();
        match news {
            News::Listed(resource, objects, _) if *resource == NAMESPACES => {
                self.says = objects
                    .iter()
                    .filter_map(|object| Some((object.key.name.clone(), say(object)?)))
                    .collect();
            }
            News::Set(resource, object) if *resource == NAMESPACES => {
                match say(object) {
                    Some(say) => self.says.insert(object.key.name.clone(), say),
                    None => self.says.remove(&object.key.name),
                };
            }
            News::Gone(resource, object) if *resource == NAMESPACES => {
                self.says.remove(&object.key.name);
            }
            // Without permission to read namespaces, only the annotations of pods count.
            News::Barred(resource, _) if *resource == NAMESPACES => self.says.clear(),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => return false,
        }
        self.is_news |= before != self.says;
        true
    }
}

fn say(object: &Object) -> Option<EvictionSay> {
    let wire: Wire = serde_json::from_slice(object.json()).ok()?;
    EvictionSay::parse(wire.metadata.annotations.get(EVICTION_SAY)?)
}
