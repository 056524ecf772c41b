//! Texts that many incidents have in common are kept once.

use alloc::collections::BTreeSet;

use lazaret_model::Text;

use crate::{incident::Incident, policy::TaintKeyValue};

/// Texts that are shared. Names of policies, rules and stages repeat; of causes with something of their own in them no more are taken in.
const TEXTS_MAX: usize = 1_024;

/// Texts that are shared.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeSet<Text>);

impl Texts {
    /// The same text, shared with whoever else has it.
    pub(crate) fn share(&mut self, text: Text) -> Text {
        if let Some(known) = self.0.get(&*text) {
            return known.clone();
        }
        if self.0.len() < TEXTS_MAX {
            self.0.insert(text.clone());
        }
        text
    }

    fn share_in(&mut self, text: &mut Text) {
        let own = core::mem::take(text);
        *text = self.share(own);
    }

    /// Shares the key and the value of a taint.
    pub(crate) fn share_taint(&mut self, taint: &mut TaintKeyValue) {
        self.share_in(&mut taint.key);
        self.share_in(&mut taint.value);
    }

    /// Shares what an incident that was read has in common with others.
    pub(crate) fn share_incident(&mut self, incident: &mut Incident) {
        for text in [&mut incident.policy, &mut incident.rule, &mut incident.waits_for] {
            self.share_in(text);
        }
        self.share_taint(&mut incident.taint);
        incident.timeline.shrink_to_fit();
        for entry in &mut incident.timeline {
            self.share_in(&mut entry.cause);
            self.share_in(&mut entry.actor);
        }
        for namespace in &mut incident.cost.namespaces {
            self.share_in(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn equal_texts_are_one_and_no_more_are_kept_than_permitted() {
        let mut texts = Texts::default();
        let (one, other) = (texts.share("a".into()), texts.share("a".into()));
        assert!(core::ptr::eq(&*one, &*other));
        for number in 0..2 * TEXTS_MAX {
            texts.share(format!("cause {number}").into());
        }
        assert_eq!(texts.0.len(), TEXTS_MAX);
    }
}
