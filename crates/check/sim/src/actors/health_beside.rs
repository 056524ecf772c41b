//! Policies beside the first one, on the same devices: a stricter one that enforces, and one that only observes, which an administrator adds and removes.

use std::sync::LazyLock;

use lazaret_lifecycle::{Count, Mode, Policy, Step as RepairStep, Target};
use lazaret_model::Text;

use crate::{
    actors::{
        health::{Health, HealthEvent},
        health_policy::{POLICY, PolicySpec, rule},
    },
    coverage::Mark,
    mutant::Mutant,
    palette,
    scenario::Config,
    world::World,
};

/// The name of the one that only observes. Of two equal verdicts that of the first name counts.
pub(crate) const OBSERVER: &str = "a";
/// The name of the stricter one.
pub(crate) const STRICT: &str = "strict";

/// The policies beside the first one that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) observes: bool,
    pub(crate) is_strict: bool,
}

impl Beside {
    /// At the start of a world.
    pub(crate) fn first(config: &Config) -> Self {
        Self { observes: config.beside > 1, is_strict: config.beside != 0 }
    }

    /// These policies, as a controller sees them.
    pub(crate) fn policies(self, mutant: Option<Mutant>) -> impl Iterator<Item = Policy> {
        let observer = self.observes.then(|| OBSERVES.clone()).map(|mut policy| {
            if mutant == Some(Mutant::EnforceObserver) {
                policy.mode = Mode::Enforce;
            }
            policy
        });
        observer.into_iter().chain(self.is_strict.then(|| ENFORCES.clone()))
    }

    /// The same by name.
    fn named(self, name: &str) -> Option<Policy> {
        self.policies(None).find(|policy| *policy.name == *name)
    }
}

/// It would drain for whatever another policy would do less.
static OBSERVES: LazyLock<Policy> = LazyLock::new(|| {
    let keys = [palette::KEYS[0], palette::KEYS[1], palette::KEYS[2]];
    let rules = keys.into_iter().filter_map(|key| rule((key, key, None, Target::Drained)));
    Policy { name: OBSERVER.into(), mode: Mode::Observe, rules: rules.collect(), ..strict() }
});

static ENFORCES: LazyLock<Policy> = LazyLock::new(strict);

/// It drains where the first one quarantines: for the same trouble, where that lasts for a second or comes twice within a shorter time.
fn strict() -> Policy {
    let [often, bad] = [palette::KEYS[0], palette::KEYS[1]];
    let mut lasting = rule(("lasting", bad, None, Target::Drained));
    lasting.iter_mut().for_each(|rule| rule.hold_ms = 1_000);
    let mut twice = rule(("twice", often, None, Target::Drained));
    twice.iter_mut().for_each(|rule| rule.count = Some(Count { at_least: 2, within_ms: 30_000 }));
    Policy {
        name: STRICT.into(),
        mode: Mode::Enforce,
        rules: lasting.into_iter().chain(twice).collect(),
        steps: vec![RepairStep { name: "replace".into(), timeout_ms: 30_000, is_request: false }],
        ..PolicySpec::plain().policy()
    }
}

impl Health {
    /// The policy of this name, if there is one.
    pub(crate) fn policy_named(&self, name: &Text) -> Option<Policy> {
        match &**name {
            POLICY => self.policy.map(PolicySpec::policy),
            other => self.beside.named(other),
        }
    }
}

impl World {
    /// An administrator adds the policy that observes, or removes it.
    pub(crate) fn set_observer(&mut self, observes: bool) {
        if self.config.beside != 0 && self.health.beside.observes != observes {
            self.coverage.hit(Mark::ObserverChanged);
            self.health.beside.observes = observes;
            self.health_tell(HealthEvent::Beside(self.health.beside));
        }
    }
}
