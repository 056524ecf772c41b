//! The cost of a signal and of an incident. Prints figures (`-- --nocapture`), and fails over none: machines differ.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures, and prints what it measured"
)]

use std::time::Instant;

use lazaret_lifecycle::{
    Input, Lifecycle, Mode, Notice, Policy, Reconciler, Rule, Signal, Source, TaintKeyValue, Target, When,
    WriteKind,
};
use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Timestamp};

const RULES: usize = 50;
const SIGNALS: usize = 20_000;
const INCIDENTS: usize = 10_000;
const DEVICES: usize = 100_000;

fn policy() -> Policy {
    let rule = |number: usize| Rule {
        name: format!("rule-{number}").into(),
        when: When::compile(&format!(
            r#"signal.key == "gpu.example.com/xid-{number}" && signal.value in ["48", "79", "95"]"#
        ))
        .unwrap(),
        count: None,
        hold_ms: 0,
        target: Target::Drained,
        taint: TaintKeyValue::quarantine("xid"),
    };
    Policy {
        name: "p".into(),
        mode: Mode::Enforce,
        rules: (0..RULES).map(rule).collect(),
        clear_after_ms: 60_000,
        steps: Vec::new(),
        attempts_max: 1,
        blocked: None,
        recovery: None,
    }
}

fn id(number: usize) -> DeviceId {
    DeviceId::new("gpu.example.com", format!("node-{}", number / 8), format!("gpu-{}", number % 8))
}

fn signal(number: usize, key: &str, at: i64) -> Signal {
    Signal {
        device: id(number),
        key: key.into(),
        value: "79".into(),
        source: Source::Taint,
        at: Timestamp::from_millis(at),
        lasts: true,
        message: "GPU has fallen off the bus".into(),
    }
}

#[test]
fn a_signal_against_fifty_rules() {
    let mut machine = Lifecycle::default();
    let now = Timestamp::from_millis(1);
    machine.handle(now, Input::Policy(Box::new(policy())));
    machine.handle(now, Input::Device { id: id(0), hardware: None, policies: vec!["p".into()] });
    let began = Instant::now();
    for at in 0..SIGNALS {
        let at = i64::try_from(at).unwrap();
        machine.handle(Timestamp::from_millis(at), Input::Raised(signal(0, "gpu.example.com/other", at)));
    }
    let each = began.elapsed() / u32::try_from(SIGNALS).unwrap();
    println!("{RULES} rules: {each:?} a signal");
    assert!(machine.poll().is_none(), "no rule means it");
}

/// A fleet of 100,000 devices that hears 1,000 signals a second, every tenth of them about something that a rule means.
#[test]
fn signals_of_a_large_fleet() {
    let mut machine = Lifecycle::default();
    let now = Timestamp::from_millis(1);
    machine.handle(now, Input::Policy(Box::new(policy())));
    for number in 0..DEVICES {
        let input = Input::Device { id: id(number), hardware: None, policies: vec!["p".into()] };
        machine.handle(now, input);
    }
    let signals: Vec<Signal> = (0..SIGNALS)
        .map(|at| {
            let key = if at % 10 == 0 { "gpu.example.com/xid-7" } else { "gpu.example.com/other" };
            let value = if at % 20 == 0 { "79" } else { "1" };
            Signal { value: value.into(), ..signal(at * 7_919 % DEVICES, key, i64::try_from(at).unwrap()) }
        })
        .collect();
    let began = Instant::now();
    let mut effects = 0;
    for signal in signals {
        let at = signal.at;
        machine.handle(at, Input::Raised(signal));
        machine.tick(at);
        while machine.poll().is_some() {
            effects += 1;
        }
    }
    let each = began.elapsed() / u32::try_from(SIGNALS).unwrap();
    let share = each.as_secs_f64() * 1_000.0 * 100.0;
    println!("{DEVICES} devices: {each:?} a signal, {share:.2} % of a core at 1,000 a second");
    assert!(effects > 0, "every twentieth is trouble");
}

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096
}

#[test]
fn ten_thousand_open_incidents() {
    let mut core = Reconciler::default();
    let now = Timestamp::from_millis(1);
    core.handle(now, Notice::Core(Input::Policy(Box::new(policy()))));
    core.handle(now, Notice::BecameLeader);
    for number in 0..INCIDENTS {
        let input = Input::Device { id: id(number), hardware: None, policies: vec!["p".into()] };
        core.handle(now, Notice::Core(input));
    }
    let before = resident_bytes();
    for number in 0..INCIDENTS {
        core.handle(now, Notice::Core(Input::Raised(signal(number, "gpu.example.com/xid-7", 1))));
        let unused =
            Input::InUse { device: id(number), is_used: false, namespaces: Vec::new(), stays: "".into() };
        core.handle(now, Notice::Core(unused));
    }
    core.handle(now, Notice::Tick);
    let mut written = 0;
    for round in 0..3_u64 {
        while let Some(write) = core.poll_effect() {
            written += usize::from(matches!(write.kind, WriteKind::Create(_)));
            let uid = Some(format!("{round}-{}", write.id.0).into());
            let notice = Notice::Acknowledged {
                id: write.id,
                outcome: Outcome::Done,
                version: None,
                uid,
                refused: None,
            };
            core.handle(now, notice);
        }
        core.handle(now, Notice::Tick);
    }
    let open = core.lifecycle().incidents().count();
    println!("{open} open incidents: {} bytes each", resident_bytes().saturating_sub(before) / INCIDENTS);
    assert_eq!((open, written), (INCIDENTS, INCIDENTS));
}
