//! The templates of pods, each decoded once.

use std::{collections::HashMap, sync::Arc};

use lazaret_api::PodTemplate;

/// Templates in the cache. When there are more, all are dropped: a cluster with this many gains nothing from the cache.
const TEMPLATES_MAX: usize = 1_024;
/// A template with a longer key is decoded for each version of a pod.
const KEY_BYTES_MAX: usize = 16 << 10;

/// Templates by their keys.
#[derive(Debug, Default)]
pub(crate) struct PodTemplates(HashMap<Box<[u8]>, Arc<PodTemplate>>);

impl PodTemplates {
    pub(crate) fn get(&self, key: &[u8]) -> Option<Arc<PodTemplate>> {
        self.0.get(key).cloned()
    }

    pub(crate) fn insert(&mut self, key: &[u8], template: Arc<PodTemplate>) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        if self.0.len() >= TEMPLATES_MAX {
            self.0.clear();
        }
        self.0.insert(key.into(), template);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_api::PodOutline;

    #[test]
    fn templates_are_bounded_by_number_and_by_size() {
        let template = Arc::new(PodOutline::template(r#"{"metadata":{"name":"a"}}"#).unwrap());
        let mut templates = PodTemplates::default();
        for key in 0..TEMPLATES_MAX + 3 {
            templates.insert(key.to_string().as_bytes(), Arc::clone(&template));
        }
        assert_eq!(templates.0.len(), 3);
        templates.insert(&vec![0; KEY_BYTES_MAX + 1], template);
        assert_eq!(templates.0.len(), 3);
    }
}
