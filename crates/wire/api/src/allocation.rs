//! From the model to the wire: what a claim was given, as `status.allocation` has it.

use lazaret_model::{
    Allocation, ConfigSource, DeviceResult, NodeSelector, Opaque, Text, Toleration, TolerationOperator,
};
use serde_json::{Value, value::RawValue};

use crate::wire::{self, Amount, Instant, Nullable, Raw};

/// An allocation as the API writes it: what is empty is left out.
#[must_use]
pub fn allocation_to_json(allocation: &Allocation) -> Value {
    let wire = wire::Allocation {
        devices: Nullable(wire::AllocationDevices {
            results: Nullable(allocation.results.iter().map(device_result).collect()),
            config: Nullable(allocation.config.iter().map(config).collect()),
        }),
        node_selector: allocation.node_selector.as_ref().map(node_selector_to_wire),
        allocation_timestamp: allocation.timestamp.map(Instant),
    };
    // All keys are strings and no number is a float, so nothing can fail.
    serde_json::to_value(wire).unwrap_or_default()
}

fn device_result(result: &DeviceResult) -> wire::DeviceResult {
    let amounts = result.consumed_capacity.iter();
    wire::DeviceResult {
        request: string(&result.request),
        driver: string(&result.device.driver),
        pool: string(&result.device.pool),
        device: string(&result.device.device),
        admin_access: result.admin_access.then_some(true),
        tolerations: Nullable(result.tolerations.iter().map(toleration).collect()),
        binding_conditions: strings(&result.binding_conditions),
        binding_failure_conditions: strings(&result.binding_failure_conditions),
        share_id: result.share_id.as_ref().map(String::from),
        consumed_capacity: Nullable(
            amounts.map(|(key, amount)| (String::from(key), Amount(amount.clone()))).collect(),
        ),
        skip_node_operations: strings(&result.skip_node_operations),
    }
}

fn toleration(toleration: &Toleration) -> wire::Toleration {
    wire::Toleration {
        key: string(&toleration.key),
        operator: Nullable(match &toleration.operator {
            TolerationOperator::Equal => "Equal".to_owned(),
            TolerationOperator::Exists => "Exists".to_owned(),
            TolerationOperator::Unknown(name) => name.into(),
        }),
        value: string(&toleration.value),
        effect: Nullable(
            toleration.effect.as_ref().map_or_else(String::new, |effect| effect.name().to_owned()),
        ),
        toleration_seconds: toleration.seconds,
    }
}

fn config(config: &lazaret_model::ResultConfig) -> wire::AllocationConfig {
    let source = match config.source {
        ConfigSource::Class => "FromClass",
        ConfigSource::Claim => "FromClaim",
    };
    wire::AllocationConfig {
        source: Nullable(source.to_owned()),
        requests: strings(&config.requests),
        opaque: config.opaque.as_ref().map(opaque),
    }
}

/// Parameters that came over the wire are JSON. Any other text becomes null.
fn opaque(opaque: &Opaque) -> wire::Opaque {
    wire::Opaque {
        driver: string(&opaque.driver),
        parameters: RawValue::from_string((&opaque.parameters).into()).ok().map(Raw),
    }
}

pub(crate) fn node_selector_to_wire(selector: &NodeSelector) -> wire::NodeSelector {
    let requirements = |list: &[lazaret_model::Requirement]| {
        let requirement = |requirement: &lazaret_model::Requirement| wire::Requirement {
            key: string(&requirement.key),
            operator: Nullable(requirement.operator.name().to_owned()),
            values: strings(&requirement.values),
        };
        Nullable(list.iter().map(requirement).collect())
    };
    let term = |term: &lazaret_model::NodeSelectorTerm| wire::NodeSelectorTerm {
        match_expressions: requirements(&term.match_expressions),
        match_fields: requirements(&term.match_fields),
    };
    wire::NodeSelector { node_selector_terms: Nullable(selector.terms.iter().map(term).collect()) }
}

fn string(text: &Text) -> Nullable<String> {
    Nullable(text.into())
}

fn strings(texts: &[Text]) -> Nullable<Vec<String>> {
    Nullable(texts.iter().map(String::from).collect())
}
