//! Which policies are acted on: those that do not contradict an older one, and that do not take everything out of service as soon as they are acted on.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_api::HealthPolicy;
use lazaret_lifecycle::{Input as CoreInput, Lifecycle, Mode, Policy};
use lazaret_model::{Text, Timestamp};
use lazaret_runtime::Object;

use crate::header::Header;

/// Of fewer devices all may well be ill; of as many, the rules are more likely to be wrong.
const EVERYTHING_DEVICES_MIN: usize = 3;

/// Why a policy is not acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// For programs.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

/// A policy that can be understood.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) policy: Arc<HealthPolicy>,
    /// When it was made, as its metadata says it; texts of one form are in the order of time.
    created: Text,
    /// Its status says that this spec is acted on.
    is_accepted: bool,
}

impl Candidate {
    pub(super) fn new(policy: HealthPolicy, object: &Object) -> Self {
        let header = Header::read(object.json()).unwrap_or_default();
        let is_accepted = header.conditions().iter().any(|one| {
            one.kind == "Accepted" && one.status == "True" && one.observed_generation == policy.generation
        });
        let created = header.created().into();
        Self { policy: Arc::new(policy), created, is_accepted }
    }

    /// Whether it has to be found out first what it would do.
    pub(super) fn must_be_tried(&self) -> bool {
        !self.is_accepted && self.policy.policy.mode == Mode::Enforce
    }
}

/// Why the policy of this name cannot be acted on beside older ones, if it cannot.
pub(super) fn contradiction(name: &Text, all: &BTreeMap<Text, Candidate>) -> Option<Problem> {
    let one = all.get(name)?;
    let is_older = |(other, candidate): &(&Text, &Candidate)| {
        (&candidate.created, *other) < (&one.created, name)
            && candidate.policy.selector == one.policy.selector
    };
    all.iter().filter(is_older).find_map(|(other, candidate)| {
        let (mine, theirs) = one.policy.policy.contradiction(&candidate.policy.policy)?;
        let message = format!(
            "rule {mine} means the same signals of the same devices as rule {theirs} of DeviceHealthPolicy {other}, with another stage: change or delete one of them"
        );
        Some(Problem { reason: "Contradiction", message })
    })
}

/// Why a policy is not acted on that would take everything out of service which it selects, if it would. `told` is all that is known of devices.
pub(super) fn everything(now: Timestamp, policy: &HealthPolicy, told: &[CoreInput]) -> Option<Problem> {
    let name = &policy.policy.name;
    let mut machine = Lifecycle::default();
    let observing = Policy { mode: Mode::Observe, ..policy.policy.clone() };
    machine.handle(now, CoreInput::Policy(Box::new(observing)));
    let mut devices = 0;
    for heard in told {
        if let CoreInput::Device { id, hardware, policies } = heard
            && policies.contains(name)
        {
            devices += 1;
            let (id, hardware) = (id.clone(), hardware.clone());
            machine.handle(now, CoreInput::Device { id, hardware, policies: vec![name.clone()] });
        } else if let CoreInput::Raised(_) = heard {
            machine.handle(now, heard.clone());
        }
    }
    let longest = policy.policy.rules.iter().map(|rule| rule.hold_ms).max().unwrap_or(0);
    machine.tick(now.plus_millis(longest));
    let mut out = machine.incidents().filter(|incident| incident.stage.is_out_of_service()).peekable();
    let rule = out.peek().map(|incident| incident.rule.clone())?;
    let message = format!(
        "all {devices} devices that it selects would be taken out of service, the first by rule {rule}, so it only observes: change its rules or its selector, or let a DisruptionGuard with a breaker say how many may be"
    );
    (devices >= EVERYTHING_DEVICES_MIN && out.count() == devices)
        .then_some(Problem { reason: "WouldQuarantineEverything", message })
}
