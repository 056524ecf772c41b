//! Paths of health policies.

use std::hint::black_box;

use anyhow::{Result, anyhow, ensure};
use lazaret_lifecycle::{Input, Lifecycle, Mode, Policy, Rule, Signal, Source, TaintKeyValue, Target, When};
use lazaret_model::{DeviceId, Timestamp};

const RULES: usize = 50;
const NOW: Timestamp = Timestamp::from_secs(1_000);

/// A signal that none of fifty rules means, with a value that changes.
pub(super) fn signal_of_fifty_rules(rounds: usize) -> Result<()> {
    let rule = |number: usize| {
        let when =
            format!(r#"signal.key == "gpu.example.com/xid-{number}" && signal.value in ["48", "79", "95"]"#);
        Ok(Rule {
            name: format!("rule-{number}").into(),
            when: When::compile(&when).map_err(|error| anyhow!("{error:?}"))?,
            count: None,
            hold_ms: 0,
            target: Target::Drained,
            taint: TaintKeyValue::quarantine("xid"),
        })
    };
    let policy = Policy {
        name: "gpus".into(),
        mode: Mode::Enforce,
        rules: (0..RULES).map(rule).collect::<Result<_>>()?,
        clear_after_ms: 60_000,
        steps: Vec::new(),
        attempts_max: 1,
        blocked: None,
        recovery: None,
    };
    let device = DeviceId::new("gpu.example.com", "node-1", "gpu-0");
    let mut machine = Lifecycle::default();
    machine.handle(NOW, Input::Policy(Box::new(policy)));
    machine.handle(NOW, Input::Device { id: device.clone(), hardware: None, policies: vec!["gpus".into()] });
    for round in 0..rounds {
        let signal = Signal {
            device: device.clone(),
            key: "gpu.example.com/other".into(),
            value: if round % 2 == 0 { "79" } else { "80" }.into(),
            source: Source::Taint,
            at: NOW,
            lasts: true,
            message: "GPU has fallen off the bus".into(),
        };
        machine.handle(NOW, Input::Raised(black_box(signal)));
    }
    ensure!(machine.poll().is_none(), "a rule means it");
    Ok(())
}
