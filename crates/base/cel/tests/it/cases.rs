//! Every row of the tables in `cases/`: result, error and both costs, as Kubernetes 1.37 has them.

use std::fmt::Write as _;

use crate::support::{agrees, cases, devices, observe};

fn run(name: &str, table: &str, rows_min: usize) {
    let devices = devices(include_str!("../cases/devices.txt"));
    let cases = cases(table);
    assert!(cases.len() >= rows_min, "{name}: only {} rows", cases.len());
    let mut report = String::new();
    let mut wrong = 0;
    for case in &cases {
        let seen = observe(case, &devices);
        if !agrees(&case.expected, &seen) {
            wrong += 1;
            let wanted = &case.expected;
            writeln!(
                report,
                "{name}:{} {:.200}\n  wanted {} | {} | {} | {}\n  seen   {} | {} | {} | {:.300}",
                case.line,
                case.expression,
                case.device,
                wanted.estimate,
                wanted.cost,
                wanted.outcome,
                case.device,
                seen.estimate,
                seen.cost,
                seen.outcome
            )
            .unwrap();
        }
    }
    assert!(wrong == 0, "{wrong} of {} rows of {name} differ:\n{report}", cases.len());
}

#[test]
fn devices_and_selectors() {
    run("device.txt", include_str!("../cases/device.txt"), 200);
}

#[test]
fn the_language() {
    run("language.txt", include_str!("../cases/language.txt"), 300);
}

#[test]
fn the_libraries() {
    run("library.txt", include_str!("../cases/library.txt"), 200);
}

#[test]
fn budgets_and_limits() {
    run("budget.txt", include_str!("../cases/budget.txt"), 20);
}

#[test]
fn derived_attributes() {
    run("derived.txt", include_str!("../cases/derived.txt"), 30);
}
