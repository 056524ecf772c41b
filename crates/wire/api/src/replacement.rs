//! The options of a TaintReplacementPolicy become those of the core.

use lazaret_model::{LabelSelector, Share as WireShare, Text};
use lazaret_replacement::{Share, Spec, TaintOption};

use crate::{
    FieldError,
    convert::{FromWire, named},
    decode::parse,
    field::Path,
    fields,
    wire::{self, Nullable, Raw, TaintReplacementPolicySpec},
};

fields! {
    struct Policy {
        spec: Nullable<TaintReplacementPolicySpec> = "spec",
    }
}

/// Reads the spec of a policy, without its selector of pods.
///
/// # Errors
/// The field that is wrong.
pub fn read_replacement_spec(json: &str) -> Result<Spec, FieldError> {
    let Policy { spec } = parse(json)?;
    let path = &Path::ROOT.field("spec");
    spec.0.check(path)?;
    let (options, path) =
        (spec.0.automatic_replacement_options.0, &path.field("automaticReplacementOptions"));
    let text = |text: String| (!text.is_empty()).then(|| Text::from(text));
    let list = |options: Vec<wire::TaintOption>| -> Vec<TaintOption> {
        let option = |option: wire::TaintOption| TaintOption {
            key: option.key.into(),
            value: text(option.value.0),
            effect: text(option.effect.0),
            secs: option.duration_in_seconds,
        };
        options.into_iter().map(option).collect()
    };
    Ok(Spec {
        selector: LabelSelector::default(),
        enabled: options.enabled.0,
        max_concurrent: u32::from_wire(options.max_concurrent_replacements, path)?,
        node_options: list(options.taint_replacement_options.0),
        device_options: list(options.device_taint_replacement_options.0),
        replacement_secs: options.taint_replacement_time_seconds.0,
        failure_secs: options.failure_detection_time_seconds.0,
        node_failures: options.enable_node_failure_detection.0,
        fault_domain_key: text(options.fault_domain_key.0),
        max_domains_tainted: Option::from_wire(
            options.max_fault_domains_tainted,
            &path.field("maxFaultDomainsTainted"),
        )?,
        strategy: named(options.strategy, &path.field("strategy"))?,
        ready_secs: options.replacement_ready_seconds.0,
    })
}

impl FromWire<Raw> for Share {
    fn from_wire(wire: Raw, path: &Path<'_>) -> Result<Self, FieldError> {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(match WireShare::from_wire(wire, path)? {
            WireShare::Count(count) => Self::Count(number(count)),
            WireShare::Percent(percent) => Self::Percent(number(percent)),
        })
    }
}
