//! A seed's world: its size and temper, and the list of events from outside. The list is drawn up front, so that a failing world can be run again
//! with some of them left out.

mod binding;
mod draw;
mod forgers;
mod incidents;
mod one;
mod people;
mod plan;

use std::fmt::Write as _;

use crate::{mutant::Mutant, rng::Rng};
use draw::{draw_config, draw_transitions};
pub use plan::{Config, Limits, Op, SKEW_MS_MAX, Scenario, Transition};

/// How far watches may be behind, at least, where a mutant is looked for that grants views that are too old.
const HUNT_LAG_MS: u32 = 8_000;

macro_rules! fields {
    ($config:expr, $each:expr) => {{
        let (config, mut each) = ($config, $each);
        each("pods", &mut config.pods);
        each("nodes", &mut config.nodes);
        each("slices", &mut config.slices);
        each("devices", &mut config.devices);
        each("taint_slices", &mut config.taint_slices);
        each("lag_ms", &mut config.lag_ms);
        each("latency_ms", &mut config.latency_ms);
        each("grace_ms", &mut config.grace_ms);
        each("skew_0", &mut config.skew_0);
        each("skew_1", &mut config.skew_1);
        each("default_pace", &mut config.default_pace);
        each("global_pace", &mut config.global_pace);
        each("burst", &mut config.burst);
        each("horizon_ms", &mut config.horizon_ms);
        each("restore", &mut config.restore);
        each("wide", &mut config.wide);
        each("protected", &mut config.protected);
        each("healed", &mut config.healed);
        each("beside", &mut config.beside);
        each("binding", &mut config.binding);
        each("crowded", &mut config.crowded);
        each("replaced", &mut config.replaced);
        each("collected", &mut config.collected);
        each("once", &mut config.once);
    }};
}

/// The numbers of a guard whose breaker counts fault domains, and is else as these say.
fn counting_domains(how: u32, seconds: u32) -> (u32, u32) {
    let seconds = seconds & !1;
    (how | 3, if seconds % 13 == 12 { seconds ^ 2 } else { seconds })
}

impl Scenario {
    /// The world of a seed.
    #[must_use]
    pub fn draw(seed: u64, limits: Limits) -> Self {
        let mut rng = Rng::new(seed, 0);
        let config = draw_config(seed, limits, &mut rng);
        let transitions = draw_transitions(&config, limits, &mut rng);
        Self { config, transitions }
    }

    /// The world of a seed in which a mutant is looked for. A view that is too old shows only where watches are far behind, devices that are counted
    /// in place of fault domains only where a breaker counts these, and so on.
    #[must_use]
    pub fn hunt(seed: u64, limits: Limits, mutant: Mutant) -> Self {
        let mut scenario = Self::draw(seed, limits);
        if mutant == Mutant::StaleView {
            scenario.config.lag_ms = scenario.config.lag_ms.max(HUNT_LAG_MS);
        }
        if mutant == Mutant::UncheckedDevices {
            scenario.config.once = 1;
            people::hold_up_allocations(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::UnprovenMarks {
            scenario.forge_marks();
        }
        if mutant == Mutant::BelieveForgedSlices {
            scenario.config.once = 0;
            forgers::forge_slices(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::UnsignedApprovals {
            scenario.config.protected = 1;
            forgers::forge_approvals(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::DevicesForDomains {
            let guards = scenario.transitions.iter_mut().filter(|one| one.op == Op::WriteGuard);
            guards.for_each(|guard| (guard.b, guard.c) = counting_domains(guard.b, guard.c));
        }
        if mutant == Mutant::NoFlightWait {
            people::hand_over_in_flight(&scenario.config, &mut scenario.transitions);
        }
        scenario
    }

    /// A server that lets tenants write marks of replacements, pods that are replaced, and tenants who write such marks.
    fn forge_marks(&mut self) {
        if self.config.is_large() {
            return;
        }
        self.config.once = 0;
        if core::mem::replace(&mut self.config.replaced, 1) == 0 {
            draw::draw_replacement(&self.config, &mut self.transitions);
        }
        people::forge_marks(&self.config, &mut self.transitions);
    }

    /// As a regression file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("seed {}\npopulation {}\n", self.config.seed, self.config.population);
        fields!(&mut self.config.clone(), |name: &str, value: &mut u32| {
            let _infallible = writeln!(text, "{name} {value}");
        });
        for transition in &self.transitions {
            let _infallible = writeln!(text, "{transition}");
        }
        text
    }

    /// From a regression file. Lines that start with `#` are comments.
    ///
    /// # Errors
    /// The line that is not understood.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let mut scenario =
            Self { config: draw_config(0, Limits::default(), &mut Rng::new(0, 0)), transitions: Vec::new() };
        // A file that says nothing of them is from before there were such worlds.
        let Config { wide, protected, healed, beside, binding, crowded, replaced, once, .. } =
            &mut scenario.config;
        let fields = [wide, protected, healed, beside, binding, crowded, replaced, once];
        fields.into_iter().for_each(|field| *field = 0);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            scenario.read_line(line).ok_or_else(|| format!("cannot read line {line:?}"))?;
        }
        Ok(scenario)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // A file that says nothing of its population is from before they were shared.
            ["seed", value] => {
                self.config.seed = value.parse().ok()?;
                self.config.population = self.config.seed;
            }
            ["population", value] => self.config.population = value.parse().ok()?,
            [name, value] => {
                let value: u32 = value.parse().ok()?;
                let mut found = false;
                fields!(&mut self.config, |field: &str, target: &mut u32| {
                    if field == *name {
                        (*target, found) = (value, true);
                    }
                });
                return found.then_some(());
            }
            [at, op, a, b, c] => {
                let [at, a, b, c] = [at, a, b, c].map(|word| word.parse().ok());
                self.transitions.push(Transition { at: at?, op: Op::named(op)?, a: a?, b: b?, c: c? });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Scenario};

    #[test]
    fn a_seed_means_one_world_and_text_keeps_it() {
        for seed in 0..50 {
            let drawn = Scenario::draw(seed, Limits::default());
            assert_eq!(drawn, Scenario::draw(seed, Limits::default()));
            assert_eq!(Scenario::from_text(&drawn.to_text()), Ok(drawn));
        }
        assert!(Scenario::from_text("12 taint-moon 1 2 3").is_err());
    }

    #[test]
    fn sizes_vary_up_to_the_limit() {
        let sizes: Vec<u32> =
            (0..200).map(|seed| Scenario::draw(seed, Limits::default()).config.pods).collect();
        assert!(sizes.iter().all(|pods| *pods <= 1000));
        assert!(sizes.iter().any(|pods| *pods > 500) && sizes.iter().any(|pods| *pods < 10));
    }
}
