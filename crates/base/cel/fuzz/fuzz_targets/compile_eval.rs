//! Any bytes as an expression: compile in every environment, evaluate on two devices.
//!
//! Nothing may panic, run longer than its budget allows, or answer differently the second time.
//!
//! With cargo-fuzz: `cargo +nightly fuzz run compile_eval`. Without, on the stable toolchain, `run.sh` builds the same
//! target with coverage but without sanitizers.
#![no_main]

use std::sync::LazyLock;

use lazaret_cel::{COST_MAX, Env, Mode, Outcome, Program, SimpleDevice, compile, compile_derived};
use lazaret_model::{AttrNames, AttrValue, Quantity, Text, VersionValue};
use libfuzzer_sys::{Corpus, fuzz_target};

struct World {
    names: AttrNames,
    devices: [SimpleDevice; 2],
    environments: [Env; 3],
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let mut names = AttrNames::default();
    let attributes: [(&str, AttrValue); 9] = [
        ("model", AttrValue::String("A100-SXM4".into())),
        ("cores", AttrValue::Int(6912)),
        ("healthy", AttrValue::Bool(true)),
        ("version", AttrValue::Version(VersionValue::new("1.2.3-rc.1"))),
        ("links", AttrValue::Ints([1, 2, 3].into())),
        ("modes", AttrValue::Strings([Text::from("mig"), Text::from("größe")].into())),
        ("flags", AttrValue::Bools([true, false].into())),
        ("apis", AttrValue::Versions([VersionValue::new("1.0.0")].into())),
        ("b.example.com/rank", AttrValue::Int(-1)),
    ];
    let capacity = ["80Gi", "1500m"].map(|text| Quantity::parse(text).expect("a quantity"));
    let [memory, power] = capacity;
    let rich = SimpleDevice::new(
        "a.example.com",
        attributes,
        [("memory", memory), ("b.example.com/power", power)],
        true,
        &mut names,
    );
    let none: [(&str, AttrValue); 0] = [];
    let poor = SimpleDevice::new("b.example.com", none, [], false, &mut names);
    World {
        names,
        devices: [rich, poor],
        environments: [
            Env::stored(),
            Env::new(Mode::New),
            Env::new(Mode::New).with_list_attributes(true).with_consumable_capacity(true),
        ],
    }
});

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(expression) = core::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    for env in &WORLD.environments {
        match compile(expression, env) {
            Ok(program) => evaluate(&program),
            Err(error) => {
                assert!(!error.issues.is_empty());
                for issue in &error.issues {
                    assert!(issue.span.end <= expression.len().max(1), "{issue:?}");
                }
                let _ = error.render(expression);
            }
        }
        if let Ok(program) = compile_derived(expression, env) {
            let bound = program.bind(&WORLD.names);
            for device in &WORLD.devices {
                assert_eq!(bound.derive(device).ok(), bound.derive(device).ok());
            }
        }
    }
    Corpus::Keep
});

fn evaluate(program: &Program) {
    let estimate = program.estimated_cost();
    assert!(estimate.min <= estimate.max);
    let bound = program.bind(&WORLD.names);
    for device in &WORLD.devices {
        let (outcome, cost) = bound.matches_with_cost(device);
        let (again, cost_again) = bound.matches_with_cost(device);
        assert_eq!((text(&outcome), cost), (text(&again), cost_again));
        let is_stopped = matches!(&outcome, Outcome::Error(error) if error.is_cost_exceeded());
        assert!(cost <= COST_MAX || is_stopped, "cost {cost} of {outcome:?}");
    }
}

fn text(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}
