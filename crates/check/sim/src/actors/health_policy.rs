//! The one health policy: its rules, and the forms that an administrator gives it.

use std::sync::LazyLock;

use lazaret_lifecycle::{
    Count, Flaps, Mode, Policy, Recovery, Rule, Step as RepairStep, TaintKeyValue, Target, When,
};

use lazaret_signals::{POOL_COMPLETE_KEY, PUBLISHED_KEY};

use crate::{actors::health::HealthEvent, coverage::Mark, palette, scenario::Config, world::World};

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
    pub(super) fn plain() -> Self {
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

/// A rule of this name for signals with this key, so many within a minute.
pub(super) fn rule((name, key, count, target): (&str, &str, Option<u32>, Target)) -> Option<Rule> {
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
