//! Objects that no API server would let through: whatever they ask, there is an answer, and always the same.

use std::sync::Arc;

use lazaret_allocator::{Answer, Options};
use lazaret_model::*;

use crate::{
    dsl::{self, Case},
    random::{self, Dice},
    table,
};

fn weird_quantity(dice: &mut Dice) -> Quantity {
    let texts =
        ["0", "-3", "1n", "1500m", "9223372036854775807", "9223372036854775808", "1e40", "-1e40", "7Ei"];
    Quantity::parse(dice.one(&texts)).unwrap()
}

fn spoil_device(device: &mut Device, dice: &mut Dice) {
    match dice.roll(9) {
        0 => device.name = Text::default(),
        1 => device.attributes.push(("t.org/n".into(), AttrValue::Unsupported)),
        2 => device.attributes.push(("a/b/c".into(), AttrValue::Ints([].into()))),
        3 => {
            let policy = RequestPolicy {
                default: Some(weird_quantity(dice)),
                valid_values: vec![],
                valid_range: Some(ValidRange {
                    min: dice.chance(50).then(|| weird_quantity(dice)),
                    max: Some(weird_quantity(dice)),
                    step: Some(weird_quantity(dice)),
                }),
            };
            device
                .capacity
                .push(("zz".into(), CapacityValue { value: weird_quantity(dice), policy: Some(policy) }));
        }
        4 => device.consumes_counters.iter_mut().flat_map(|c| &mut c.counters).for_each(|(_, amount)| {
            *amount = weird_quantity(dice);
        }),
        5 => device.consumes_counters.extend(device.consumes_counters.clone()),
        6 => device.binding_conditions = Some(vec![]),
        7 => {
            device.nodes =
                Some(NodeScope::Selector(NodeSelector { terms: vec![NodeSelectorTerm::default(); 2] }))
        }
        _ => device.allow_multiple_allocations = Some(true),
    }
}

fn spoil_slice(slice: &mut ResourceSlice, dice: &mut Dice) {
    match dice.roll(6) {
        0 => slice.pool.slice_count = dice.one(&["0", "-1", "9223372036854775807"]).parse().unwrap(),
        1 => {
            slice.pool.generation =
                dice.one(&["-9223372036854775808", "9223372036854775807"]).parse().unwrap()
        }
        2 => slice.nodes = NodeScope::Unknown,
        3 => slice.devices.extend(slice.devices.clone()),
        4 => slice.shared_counters.iter_mut().flat_map(|set| &mut set.counters).for_each(|(_, amount)| {
            *amount = weird_quantity(dice);
        }),
        _ => {
            slice.devices =
                slice.devices.iter().cycle().take(slice.devices.len().min(1) * 140).cloned().collect()
        }
    }
}

fn spoil_request(request: &mut DeviceRequest, dice: &mut Dice) {
    match dice.roll(8) {
        0 => request.mode = AllocationMode::Exact(-5),
        1 => request.mode = AllocationMode::Exact(i64::MAX),
        2 => request.class = Text::default(),
        3 => request.selectors.push(Some("device.attributes[".into())),
        4 => request.selectors.push(Some("dyn(1)".into())),
        5 => {
            request.capacity =
                Some(vec![("mem".into(), weird_quantity(dice)), ("zz".into(), weird_quantity(dice))])
        }
        6 => request.tolerations.push(Toleration {
            operator: TolerationOperator::Unknown("Perhaps".into()),
            ..Toleration::default()
        }),
        _ => request
            .derived_attributes
            .push(DerivedAttribute { name: "t.org/n".into(), expression: "[]".into() }),
    }
}

fn spoil_claim(claim: &mut ResourceClaim, dice: &mut Dice) {
    let spec = Arc::make_mut(&mut claim.spec);
    match dice.roll(5) {
        0 => spec.requests.extend(spec.requests.clone()),
        1 => spec.constraints.extend(spec.constraints.clone()),
        2 => spec.constraints.push(Constraint {
            requests: vec!["/".into(), "nobody".into()],
            kind: ConstraintKind::Match("n".into()),
        }),
        3 => spec.requests.push(lazaret_model::Request {
            name: Text::default(),
            kind: RequestKind::FirstAvailable(vec![]),
        }),
        _ => {}
    }
    for request in &mut spec.requests {
        match &mut request.kind {
            RequestKind::Exactly(spec) if dice.chance(30) => spoil_request(spec, dice),
            RequestKind::FirstAvailable(list) => {
                for spec in list.iter_mut() {
                    if dice.chance(30) {
                        spoil_request(spec, dice);
                    }
                }
            }
            RequestKind::Exactly(_) | RequestKind::Unknown => {}
        }
    }
}

fn spoil(case: &mut Case, dice: &mut Dice) {
    for slice in &mut case.slices {
        if dice.chance(20) {
            spoil_slice(slice, dice);
        }
        for device in &mut slice.devices {
            if dice.chance(15) {
                spoil_device(device, dice);
            }
        }
    }
    for claim in &mut case.claims {
        if dice.chance(70) {
            spoil_claim(Arc::make_mut(claim), dice);
        }
    }
}

#[test]
fn whatever_is_asked_there_is_an_answer() {
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let mut case = dsl::cases(&random::case(seed)).remove(0);
        spoil(&mut case, &mut dice);
        let options = Options { budget_steps: 5_000, ..Options::default() };
        let quick = table::solve(&case, &options);
        assert_eq!(quick, table::solve(&case, &options), "seed {seed}: not the same twice");
        let literal = table::solve(&case, &Options { literal: true, ..options });
        let exhausted = |answer: &Answer| matches!(answer, Answer::BudgetExhausted(_));
        if !exhausted(&quick) && !exhausted(&literal) {
            let kind = |answer: Answer| match answer {
                Answer::DoesNotFit(_) | Answer::BudgetExhausted(_) => None,
                Answer::Allocated(given) => Some(Ok(given)),
                Answer::Failed(error) => Some(Err(error)),
            };
            assert_eq!(kind(quick), kind(literal), "seed {seed}: pruning changed the answer");
        }
    }
}
