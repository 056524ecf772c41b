//! Whether a device may be worked on: its own taint is in force, and nobody uses it.
//!
//! A scheduler that has not seen the taint yet gives the device to one more claim. So a taint is in force when it was seen for a while, and what is
//! known of claims and pods then counts once the server was asked how far it is and everything up to there was seen. Each repair and each validation
//! needs a look of its own.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_model::{Text, Timestamp, Uid};

use super::{Child, Reconciler};
use crate::{
    incident::{Incident, Stage},
    policy::TaintKeyValue,
};

/// How long a taint is seen before the look that counts: schedulers see it by then, and what they wrote before has arrived.
const SETTLE_MS: i64 = 2_000;

/// Objects that decide whether a device may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Rules that taint.
    Rules,
    /// Claims that hold devices.
    Claims,
    /// Pods that use claims.
    Pods,
}

/// The kinds that the machine must see as the server has them now, or later. Granted by [`Input::ViewReached`](super::Input::ViewReached).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewRequest {
    /// To grant it by.
    pub number: u64,
    /// Objects of these kinds.
    pub kinds: &'static [ViewKind],
}

/// Looks at devices, by incident, and the one request for a view that is open.
#[derive(Debug, Default)]
pub(super) struct Looks {
    by_incident: BTreeMap<Text, Look>,
    last: u64,
    open: Option<u64>,
}

/// A look at the device of an incident.
#[derive(Debug)]
struct Look {
    /// The rule that taints it.
    rule: (Uid, TaintKeyValue),
    /// When it was first seen.
    since: Timestamp,
    progress: Progress,
}

/// How far a look is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// The taint was seen too shortly before, or the device is used.
    #[default]
    No,
    /// A view is wanted for what is to begin.
    Wanted(Begins),
    /// It was asked for by this request.
    Asked(Begins, u64),
    /// Everything that there was then has been seen.
    Done(Begins),
}

/// The task that is to begin, by the stage and the number of tasks before it.
type Begins = (Stage, u32);

impl Looks {
    /// No look counts any more.
    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    pub(super) fn forget(&mut self, incident: &Text) {
        self.by_incident.remove(incident);
    }

    /// The next task needs another look.
    pub(super) fn renew(&mut self, incident: &Text) {
        if let Some(look) = self.by_incident.get_mut(incident) {
            look.progress = Progress::No;
        }
    }

    /// Incidents whose taint has been seen for long enough.
    pub(super) fn due(&self, now: Timestamp, planned: Timestamp) -> Vec<Text> {
        let is_due = |look: &Look| look.settled() <= now && look.settled() > planned;
        self.by_incident.iter().filter(|(_, look)| is_due(look)).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn wake(&self, planned: Timestamp) -> Option<Timestamp> {
        self.by_incident.values().map(Look::settled).filter(|at| *at > planned).min()
    }
}

impl Look {
    fn settled(&self) -> Timestamp {
        self.since.plus_millis(SETTLE_MS)
    }
}

impl Reconciler {
    /// The view that the machine wants now, if any. The next request comes after this one was granted.
    pub fn poll_view(&mut self) -> Option<ViewRequest> {
        if !self.leads || self.looks.open.is_some() {
            return None;
        }
        let number = self.looks.last + 1;
        let mut is_wanted = false;
        for look in self.looks.by_incident.values_mut() {
            if let Progress::Wanted(begins) = look.progress {
                look.progress = Progress::Asked(begins, number);
                is_wanted = true;
            }
        }
        if !is_wanted {
            return None;
        }
        (self.looks.last, self.looks.open) = (number, Some(number));
        Some(ViewRequest { number, kinds: &[ViewKind::Rules, ViewKind::Claims, ViewKind::Pods] })
    }

    /// Everything that there was when this was asked for has been seen, and the machine knows which devices are used.
    pub(super) fn view_reached(&mut self, number: u64) {
        if self.looks.open != Some(number) {
            return;
        }
        self.looks.open = None;
        for (name, look) in &mut self.looks.by_incident {
            if let Progress::Asked(begins, asked) = look.progress
                && asked == number
            {
                look.progress = Progress::Done(begins);
                self.touched.insert(name.clone());
            }
        }
    }

    /// Whether what comes next for an incident may begin on its device, which this rule taints.
    pub(super) fn is_clear(&mut self, now: Timestamp, incident: &Incident, rule: Option<&Child>) -> bool {
        let Some(rule) = rule else {
            self.looks.forget(&incident.name);
            return false;
        };
        let known = (rule.uid.clone(), incident.taint.clone());
        let look = self.looks.by_incident.entry(incident.name.clone()).or_insert_with(|| Look {
            rule: known.clone(),
            since: now,
            progress: Progress::No,
        });
        if look.rule != known {
            *look = Look { rule: known, since: now, progress: Progress::No };
        }
        // Where a clock was set back the time begins again.
        look.since = look.since.min(now);
        let begins = (incident.stage, incident.tries);
        if self.lifecycle.is_used(&incident.device) != Some(false) || now < look.settled() {
            look.progress = Progress::No;
            return false;
        }
        match look.progress {
            Progress::Done(of) if of == begins => return true,
            Progress::Wanted(of) | Progress::Asked(of, _) if of == begins => {}
            Progress::No | Progress::Wanted(_) | Progress::Asked(..) | Progress::Done(_) => {
                look.progress = Progress::Wanted(begins);
            }
        }
        false
    }
}
