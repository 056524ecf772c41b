//! Device classes: what they select matters to the rules and patches that name them.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{DeviceClass, Text};

use crate::{ClassState, Fleet};

impl Fleet {
    pub(crate) fn apply_class(&mut self, class: Arc<DeviceClass>) {
        if self.next.classes.get(&class.name).is_some_and(|known| known.class == class) {
            return;
        }
        let name = class.name.clone();
        let state = Arc::new(ClassState::new(class, self.vocabulary.names()));
        self.next.classes.insert(name.clone(), state);
        self.class_changed(&name);
    }

    pub(crate) fn class_gone(&mut self, name: &Text) {
        if self.next.classes.remove(name).is_some() {
            self.class_changed(name);
        }
    }

    fn class_changed(&mut self, name: &Text) {
        self.noted.moved = true;
        self.noted.classes.insert(name.clone());
        // Patches first: rules look at what they leave.
        self.reclassify_patches(name);
        self.reclassify_rules(name);
    }

    /// Expressions are bound to numbers of attribute names. When a name is seen for the first time, those that were
    /// bound before it had a number must learn it. Rare: drivers have few names.
    pub(crate) fn rebind_if_names_grew(&mut self) {
        let names = self.vocabulary.names().clone();
        if names.len() == self.names_bound {
            return;
        }
        self.names_bound = names.len();
        let classes: Vec<_> =
            self.next.classes.iter().map(|(name, state)| (name.clone(), state.clone())).collect();
        for (name, state) in classes {
            self.next.classes.insert(name, Arc::new(state.rebound(&names)));
        }
        let classes = &self.next.classes;
        let class_of = |selector: Option<&lazaret_model::DeviceSelector>| {
            classes.get(selector?.class.as_ref()?).cloned()
        };
        self.rules.for_each_mut(|state| {
            state.compiled.rebind(class_of(state.rule.active_selector()).as_ref(), &names);
        });
        self.patches.for_each_mut(|state| {
            state.compiled.rebind(class_of(state.patch.selector.as_ref()).as_ref(), &names);
        });
    }
}
