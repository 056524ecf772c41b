//! Watches the signals of one device for the rules of one policy.

use alloc::{collections::VecDeque, string::String, vec::Vec};

use lazaret_cel::Datum;
use lazaret_invariant::invariant;
use lazaret_model::{Text, Timestamp};

use crate::{
    policy::{COUNT_MAX, Count, Policy, Target},
    rule_index::IndexedPolicy,
    signal::{Signal, Source},
    small_map::SmallMap,
    texts::Texts,
};

/// Signals that last, for one rule and device; more are not told apart from these.
const LASTING_MAX: usize = 64;

/// A signal that lasts: what it is about, from where, and what it says.
pub(crate) type Lasting = (Text, Source, Text);

/// The state of a policy's rules on one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher {
    /// Those of which anything is known, by number: most rules never hold on a device.
    rules: SmallMap<usize, Watched>,
    /// When a rule last held.
    pub(crate) last_match: Option<Timestamp>,
    /// Signals that lasted when the rules changed: what they say, and since when a rule held for them.
    stood: SmallMap<(Text, Source), (Text, Timestamp)>,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// When signals that it means were raised, the newest last.
    hits: VecDeque<Timestamp>,
    /// Those that last and were not lowered.
    lasting: SmallMap<(Text, Source), Text>,
    /// Those that lasted when an earlier machine counted, and were not heard of since: they were counted.
    counted: SmallMap<(Text, Source), Text>,
    /// Since when it holds, interruptions left out.
    since: Option<Timestamp>,
    /// Whether it held when it was last looked at, and goes on until something is heard.
    is_holding: bool,
    /// When it last held.
    held_at: Option<Timestamp>,
    /// A signal that does not last was noticed, and nobody has looked since.
    is_fresh: bool,
    /// It held already when the machine began: since when is not known.
    is_standing: bool,
    /// Since when a rule held for the same signal, before the rules changed.
    stood_since: Option<Timestamp>,
    /// The newest message.
    message: Text,
}

/// A rule that has held long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) rule: usize,
    pub(crate) target: Target,
    /// Since when the rule holds; the epoch when it held already before the machine began.
    pub(crate) since: Timestamp,
    pub(crate) message: Text,
}

impl Watcher {
    /// The rules changed: state by rule number is void. Rules that held until now leave no calm behind, and what lasts on is no news for them.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        for (_, watched) in self.rules.iter() {
            let Some(since) = watched.held_since() else { continue };
            for (level, value) in watched.lasting.iter() {
                let before = self.stood.get(level).map_or(since, |(_, before)| *before);
                if self.stood.len() < LASTING_MAX || self.stood.get(level).is_some() {
                    self.stood.insert(level.clone(), (value.clone(), since.min(before)));
                }
            }
        }
        if self.rules.iter().any(|(_, watched)| watched.is_holding) {
            self.last_match = Some(now);
        }
        self.rules.clear();
    }

    /// Counts from before a repair are void after it.
    pub(crate) fn forget_counts(&mut self) {
        for watched in self.rules.values_mut() {
            watched.hits.clear();
            watched.counted.clear();
            watched.is_fresh = false;
            if watched.lasting.is_empty() {
                watched.is_holding = false;
            }
        }
    }

    /// Counts from before a repair that an earlier machine began are void. Signals that last since then were counted.
    pub(crate) fn forget_counts_until(&mut self, until: Timestamp) {
        for watched in self.rules.values_mut() {
            watched.hits.retain(|at| *at > until);
            if watched.hits.is_empty() && watched.lasting.is_empty() {
                watched.is_holding = false;
            }
        }
    }

    /// Signals that last now are not news to a machine that begins.
    pub(crate) fn stand(&mut self) {
        for watched in self.rules.values_mut() {
            watched.is_fresh = false;
            watched.is_standing = !watched.lasting.is_empty();
            // It ended while nobody was there: when it comes again, it counts again.
            watched.counted.clear();
        }
    }

    /// A signal was raised. Expressions that cannot be evaluated match nothing; their errors come back.
    pub(crate) fn raise(
        &mut self,
        policy: &IndexedPolicy,
        signal: &Signal,
        datum: &mut Option<Datum>,
        (now, texts): (Timestamp, &mut Texts),
    ) -> Raised {
        let mut raised = Raised::default();
        let mut hit = SmallMap::default();
        let stood = self.stood_since(signal);
        for index in policy.rules_about(&signal.key) {
            let Some(rule) = invariant!(policy.rules.get(index), "an indexed rule is in its policy") else {
                continue;
            };
            match rule.when.matches(datum.get_or_insert_with(|| signal.datum())) {
                Ok(true) => {
                    raised.is_meant = true;
                    hit.insert(index, ());
                    let watched = self.rules.or_default(index);
                    raised.is_counted |= watched.hit(signal, (now, texts), rule.count);
                    watched.stood_since = watched.stood_since.or(stood);
                }
                Ok(false) => {}
                Err(error) => raised.errors.push((index, error)),
            }
        }
        // The same signal with another value: what it said before is over.
        for (index, watched) in self.rules.iter_mut() {
            if hit.get(index).is_none() && !watched.lasting.is_empty() {
                watched.lasting.remove(&(signal.key.clone(), signal.source));
            }
        }
        raised
    }

    /// Since when a rule held for this signal before the rules changed. One that says something else now is another signal.
    fn stood_since(&mut self, signal: &Signal) -> Option<Timestamp> {
        if self.stood.is_empty() {
            return None;
        }
        let level = (signal.key.clone(), signal.source);
        let same = self.stood.get(&level).filter(|(value, _)| signal.lasts && *value == signal.value);
        let since = same.map(|(_, since)| *since);
        if since.is_none() {
            self.stood.remove(&level);
        }
        since
    }

    /// The counts of rules that count, by the number of the rule: instants within its time, and signals that last.
    pub(crate) fn counts<'a>(
        &'a self,
        policy: &'a Policy,
        now: Timestamp,
    ) -> impl Iterator<Item = (usize, Vec<Timestamp>, Vec<Lasting>)> + 'a {
        self.rules.iter().filter_map(move |(&index, watched)| {
            let count = policy.rules.get(index)?.count?;
            let is_recent = |at: &&Timestamp| now < at.plus_millis(count.within_ms);
            let hits: Vec<Timestamp> = watched.hits.iter().filter(is_recent).copied().collect();
            let lasting =
                |((key, source), value): (&(Text, Source), &Text)| (key.clone(), *source, value.clone());
            let lasting = watched.lasting.iter().chain(watched.counted.iter()).map(lasting).collect();
            (!hits.is_empty()).then_some((index, hits, lasting))
        })
    }

    /// Restores the counts of an earlier machine for a rule without state here.
    pub(crate) fn restore(&mut self, index: usize, hits: &[Timestamp], lasting: &[Lasting]) {
        if self.rules.get(&index).is_some() {
            return;
        }
        let watched = self.rules.or_default(index);
        watched.hits = hits.iter().copied().collect();
        for (key, source, value) in lasting.iter().take(LASTING_MAX) {
            watched.counted.insert((key.clone(), *source), value.clone());
        }
    }

    /// A signal that lasted is over. Returns whether it was known to last.
    pub(crate) fn lower(&mut self, key: &Text, source: Source) -> bool {
        let level = (key.clone(), source);
        let mut was_known = self.stood.remove(&level).is_some();
        for watched in self.rules.values_mut() {
            was_known |= watched.lasting.remove(&level).is_some();
            was_known |= watched.counted.remove(&level).is_some();
        }
        was_known
    }

    /// Looks at all rules.
    pub(crate) fn look(&mut self, policy: &Policy, now: Timestamp) -> Look {
        let mut look = Look::default();
        for (&index, watched) in self.rules.iter_mut() {
            let Some(rule) = invariant!(policy.rules.get(index), "a watched rule is in its policy") else {
                continue;
            };
            let was_holding = core::mem::take(&mut watched.is_holding);
            let hold = watched.hold(rule.count, now);
            if hold != Hold::No || was_holding {
                self.last_match = Some(now);
            }
            let is_over = watched.held_at.is_none_or(|at| now.millis_since(at) > rule.hold_ms);
            if !was_holding && is_over {
                watched.since = None;
                // Unless it was never looked at since the rules changed.
                watched.stood_since = watched.stood_since.filter(|_| watched.held_at.is_none());
            }
            if hold != Hold::No || was_holding {
                watched.held_at = Some(now);
            }
            if hold == Hold::No {
                watched.is_standing = false;
                continue;
            }
            watched.is_holding = hold != Hold::Once;
            look.is_ill |= watched.is_holding;
            if let Hold::Until(end) = hold {
                look.wake_at(end);
            }
            let since = *watched.since.get_or_insert(now);
            let ripe = since.plus_millis(rule.hold_ms);
            if ripe <= now {
                let message = watched.message.clone();
                let since = watched.held_since().unwrap_or(since);
                look.fired.push(Fired { rule: index, target: rule.target, since, message });
            } else {
                look.wake_at(ripe);
            }
        }
        look
    }
}

/// The effect of a signal on the rules.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    /// A rule matches it.
    pub(crate) is_meant: bool,
    /// Some rule that counts has counted it.
    pub(crate) is_counted: bool,
    /// Rules that could not be asked, by number.
    pub(crate) errors: Vec<(usize, String)>,
}

/// The result of evaluating the rules.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Rules that have held long enough.
    pub(crate) fired: Vec<Fired>,
    /// Whether some rule goes on holding.
    pub(crate) is_ill: bool,
    /// When to look again.
    pub(crate) wake: Option<Timestamp>,
}

impl Look {
    fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |before| before.min(at)));
    }
}

/// Whether a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    No,
    /// In this moment alone.
    Once,
    /// Until then, if nothing is heard.
    Until(Timestamp),
    /// Until something is heard.
    On,
}

impl Watched {
    /// Takes a signal in; whether it was counted.
    fn hit(&mut self, signal: &Signal, (now, texts): (Timestamp, &mut Texts), count: Option<Count>) -> bool {
        let level = (signal.key.clone(), signal.source);
        if signal.lasts && self.lasting.get(&level) == Some(&signal.value) {
            // The signal lasts already.
            return false;
        }
        let is_known = signal.lasts && self.counted.remove(&level).as_ref() == Some(&signal.value);
        if let Some(count) = count.filter(|_| !is_known) {
            let keep = usize::try_from(count.at_least.min(COUNT_MAX)).unwrap_or(1).max(1);
            while self.hits.len() >= keep {
                self.hits.pop_front();
            }
            self.hits.push_back(now);
        }
        if signal.lasts && (self.lasting.len() < LASTING_MAX || self.lasting.get(&level).is_some()) {
            let key = texts.share(level.0);
            self.lasting.insert((key, level.1), texts.share(signal.value.clone()));
        }
        self.is_standing = false;
        self.is_fresh = true;
        self.message = texts.share(signal.message.clone());
        count.is_some()
    }

    /// Since when it holds, as far as that is known; the epoch where it held already before the machine began.
    fn held_since(&self) -> Option<Timestamp> {
        if self.is_standing {
            return Some(Timestamp::EPOCH);
        }
        [self.since, self.stood_since].into_iter().flatten().min()
    }

    fn hold(&mut self, count: Option<Count>, now: Timestamp) -> Hold {
        let is_fresh = core::mem::take(&mut self.is_fresh);
        let Some(count) = count else {
            return match (self.lasting.is_empty(), is_fresh) {
                (false, _) => Hold::On,
                (true, true) => Hold::Once,
                (true, false) => Hold::No,
            };
        };
        let wanted = usize::try_from(count.at_least).unwrap_or(usize::MAX);
        let first = self.hits.len().checked_sub(wanted).and_then(|at| self.hits.get(at));
        let end = first.map(|first| first.plus_millis(count.within_ms));
        end.filter(|end| now < *end).map_or(Hold::No, Hold::Until)
    }
}
