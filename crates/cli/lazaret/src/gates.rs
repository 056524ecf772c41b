//! Feature gates, as a flag.

use anyhow::{Result, anyhow};
use lazaret_server::{Features, Part, Release};

use crate::output;

/// The features of a release, changed by `--feature-gates`. A gate that makes no difference in the
/// parts that run is reported, lest a user believes that it had an effect.
pub(crate) fn features(release: Release, text: &str, parts: &[Part]) -> Result<Features> {
    let mut features = Features::of(release);
    features.parse(text).map_err(|error| anyhow!("--feature-gates: {error}"))?;
    for gate in Features::without_effect(text, parts) {
        output::note(&format!("warning: --feature-gates: {gate} {}", component_of(gate)));
    }
    Ok(features)
}

/// Whether a value of `--feature-gates` names a gate and turns it on.
pub(crate) fn turns_on(text: &str, gate: &str) -> bool {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| name.trim() == gate && value.trim().eq_ignore_ascii_case("true"))
}

fn component_of(gate: &str) -> &'static str {
    match Features::parts_of(gate) {
        [] => "is known and has no effect: nothing here depends on it",
        [Part::Server, ..] => "has an effect in the API server only: set it there",
        [Part::Scheduler, ..] => "has an effect in the scheduler and the controllers only: set it there",
    }
}

#[cfg(test)]
mod tests {
    use lazaret_controllers::Options;

    use super::*;

    /// A gate is said to act in the scheduler and the controllers if and only if their options depend on it.
    #[test]
    fn gates_act_where_they_are_said_to() {
        let none = Options::default().with_features(|_| false);
        for (gate, _) in Features::known() {
            let alone = Options::default().with_features(|other| other == gate);
            let said = Features::parts_of(gate).contains(&Part::Scheduler);
            assert_eq!(alone.scheduler != none.scheduler, said, "{gate}");
        }
    }

    #[test]
    fn a_gate_is_turned_on_by_name_only() {
        let rules = |text| turns_on(text, "DRADeviceTaintRules");
        assert!(rules("DRADeviceTaints=true, DRADeviceTaintRules=true") && rules("DRADeviceTaintRules=True"));
        assert!(!rules("") && !rules("DRADeviceTaints=true") && !rules("DRADeviceTaintRules=false"));
        assert!(!rules("AllBeta=true"));
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let parse = |text| features(Release::NEWEST, text, &[Part::Scheduler]);
        assert!(parse("NoSuchGate=true").unwrap_err().to_string().contains("unknown feature gate"));
        assert!(parse("DRADeviceTaints").is_err());
        assert!(parse("DRASchedulerFilterTimeout=false").is_ok(), "with a warning");
        assert!(parse("").unwrap().is_on("NodeDeclaredFeatures"));
    }
}
