//! The health policies: the rules of the first one, and the forms that an administrator gives it. Beside it, on the same devices: a stricter one that
//! enforces, and one that only observes, which an administrator adds and removes.

use std::sync::LazyLock;

use lazaret_lifecycle::{
    Count, Flaps, Mode, Policy, Recovery, Rule, Step as RepairStep, TaintKeyValue, Target, When,
};

use lazaret_model::Text;
use lazaret_signals::{POOL_COMPLETE_KEY, PUBLISHED_KEY};

use crate::{
    actors::health::{Health, HealthEvent},
    coverage::Mark,
    mutant::Mutant,
    palette,
    scenario::Config,
    world::World,
};

/// Its name.
pub(crate) const POLICY: &str = "p";
/// The rule that means an incomplete pool.
pub(crate) const TORN: &str = "torn";
/// The rule that means a device that is not published any more.
const GONE: &str = "gone";
/// One in as many edits deletes it.
const DELETED: u32 = 4;
/// The form that has devices prove nothing.
const TRUSTFUL: u32 = 2;
/// How many forms there are.
const FORMS: u32 = 4;

/// The policy as an administrator wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicySpec {
    pub(crate) mode: Mode,
    form: u32,
    /// Whether it minds devices and pools that are not published.
    minds_slices: bool,
}

impl PolicySpec {
    /// At the start of a world.
    pub(crate) fn first(config: &Config) -> Self {
        Self { mode: Mode::Enforce, form: 0, minds_slices: config.healed > 1 }
    }

    /// One that minds what drivers and people say, and nothing else.
    fn plain() -> Self {
        Self { mode: Mode::Enforce, form: 0, minds_slices: false }
    }

    /// The policy that this is.
    pub(crate) fn policy(self) -> Policy {
        let step = |name: &str| RepairStep { name: name.into(), timeout_ms: 30_000, is_request: false };
        let mut rules = RULES.clone();
        rules.retain(|rule| self.minds_slices || ![TORN, GONE].contains(&&*rule.name));
        let mut policy = Policy {
            name: POLICY.into(),
            mode: self.mode,
            rules,
            clear_after_ms: 8_000,
            steps: vec![step("reset"), step("reboot")],
            attempts_max: 2,
            blocked: None,
            recovery: Some(Recovery {
                probation_ms: 8_000,
                validates: true,
                validation_timeout_ms: 60_000,
                // Longer than any world lasts, so that no world waits for the end of it.
                flaps: Some(Flaps { at_most: 2, within_ms: 86_400_000 }),
            }),
        };
        match self.form {
            0 => {}
            1 => policy.steps.truncate(1),
            TRUSTFUL => policy.recovery = None,
            _ => policy.rules.iter_mut().for_each(|rule| rule.taint.value = "sorrow".into()),
        }
        policy
    }
}

/// Rules of different stages taint with different keys: the taint of an incident follows its stage.
fn target_name(target: Target) -> &'static str {
    match target {
        Target::Suspect => "suspect",
        Target::Quarantined => "quarantined",
        Target::Drained => "drained",
    }
}

/// Which signals matter: a driver's taints, whatever their effect, what people report of the same keys, pools that stay incomplete, and
/// devices that are gone.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let [often, bad, odd] = [palette::KEYS[0], palette::KEYS[1], palette::KEYS[2]];
    let rules = [
        (odd, odd, None, Target::Suspect),
        (bad, bad, None, Target::Quarantined),
        (often, often, Some(2), Target::Quarantined),
        (often, often, Some(3), Target::Drained),
        (TORN, POOL_COMPLETE_KEY, None, Target::Quarantined),
        (GONE, PUBLISHED_KEY, None, Target::Suspect),
    ];
    rules.into_iter().filter_map(rule).collect()
});

/// A rule of this name for signals with this key; with a count, for as many within a minute.
fn rule((name, key, count, target): (&str, &str, Option<u32>, Target)) -> Option<Rule> {
    Some(Rule {
        name: name.into(),
        when: When::compile(&format!("signal.key == \"{key}\"")).ok()?,
        count: count.map(|at_least| Count { at_least, within_ms: 60_000 }),
        hold_ms: 0,
        target,
        taint: TaintKeyValue {
            key: format!("trouble.example.com/{}", target_name(target)).into(),
            value: "trouble".into(),
        },
    })
}

impl World {
    /// An administrator changes the mode of the policy.
    pub(crate) fn set_mode(&mut self, observes: bool) {
        let mode = if observes { Mode::Observe } else { Mode::Enforce };
        if let Some(spec) = self.health.policy.filter(|spec| self.config.healed != 0 && spec.mode != mode) {
            self.coverage.hit(Mark::ModeChanged);
            self.set_policy(Some(PolicySpec { mode, ..spec }));
        }
    }

    /// An administrator gives the policy another form, deletes it, or makes it again.
    pub(crate) fn write_policy(&mut self, how: u32) {
        if self.config.healed == 0 {
            return;
        }
        let known = self.health.policy;
        if known.is_some() && how.is_multiple_of(DELETED) {
            self.coverage.hit(Mark::PolicyDeleted);
            // Its status has the count.
            self.health.tallies.remove(POLICY);
            return self.set_policy(None);
        }
        let form = how / DELETED % FORMS;
        let first = PolicySpec::first(&self.config);
        if known.is_none_or(|known| known.form != form) {
            self.coverage.hit(Mark::PolicyWritten);
            self.set_policy(Some(PolicySpec { form, ..known.unwrap_or(first) }));
        }
    }

    /// Faults end. In some worlds somebody makes the policy again that was deleted. One that permits any number of flaps would go on for ever where
    /// trouble lasts.
    pub(crate) fn restore_policy(&mut self) {
        let spec = match self.health.policy {
            None if self.config.healed != 0 && self.config.restore != 0 => PolicySpec::first(&self.config),
            Some(spec) if spec.form == TRUSTFUL => PolicySpec { form: 0, ..spec },
            Some(_) | None => return,
        };
        self.set_policy(Some(spec));
    }

    fn set_policy(&mut self, spec: Option<PolicySpec>) {
        self.health.policy = spec;
        self.health_tell(HealthEvent::Policy(spec));
    }
}

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
