//! Figures for people: measured, wanted, and how busy the machine was.

#![allow(clippy::print_stdout, reason = "this is what the program is for")]

use crate::machine;

/// What is wanted of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// For the record.
    None,
}

/// Prints one figure as soon as it is known.
pub(crate) fn figure(name: &str, value: f64, unit: &str, goal: Goal, remark: &str) {
    let (wanted, verdict) = match goal {
        Goal::AtMost(most) => (format!("≤ {most}"), if value <= most { "ok" } else { "MISSED" }),
        Goal::AtLeast(least) => (format!("≥ {least}"), if value >= least { "ok" } else { "MISSED" }),
        Goal::None => (String::new(), ""),
    };
    println!(
        "{name:<44} {value:>12.1} {unit:<6} {wanted:>9} {verdict:<7} load {:<6} {remark}",
        machine::load()
    );
}
