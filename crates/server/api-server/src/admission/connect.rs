//! Requests that connect to a container.

use lazaret_json::{Value, json};
use lazaret_kinds::admission::Operation;

use super::{
    ask::{mutate, validate},
    attributes::Subject,
};
use crate::{ApiError, call::Call};

/// Options that are switches.
const SWITCHES: &[&str] = &["stdin", "stdout", "stderr", "tty"];

/// Admission of a connection to a subresource of a pod. Returns the warnings.
pub(crate) async fn may_connect(call: &Call<'_>) -> Result<Vec<String>, ApiError> {
    if !call.server.admission_rules().may_apply_to(call.user) {
        return Ok(Vec::new());
    }
    let options = options(call);
    let subject = Subject {
        operation: Operation::Connect,
        name: &call.target.name,
        generated: false,
        new: &options,
        old: &Value::Null,
        delete: None,
    };
    // Nothing is made of the options, so that it does not matter what a webhook makes of them.
    let mut warnings = mutate(call, subject, |_| Ok(())).await?.warnings;
    warnings.extend(validate(call, subject).await?);
    Ok(warnings)
}

fn options(call: &Call<'_>) -> Value {
    let mut options = json!({});
    for name in SWITCHES.iter().filter(|name| call.query.flag(name)) {
        options[*name] = true.into();
    }
    if let Some(container) = call.query.get("container") {
        options["container"] = container.into();
    }
    let command: Vec<Value> = call.query.all("command").map(Value::from).collect();
    if !command.is_empty() {
        options["command"] = Value::Array(command.into_iter().collect());
    }
    let ports = call.query.all("ports").flat_map(|ports| ports.split(','));
    let ports: Vec<Value> = ports.filter_map(|port| port.parse::<i64>().ok()).map(Value::from).collect();
    if !ports.is_empty() {
        options["ports"] = Value::Array(ports.into_iter().collect());
    }
    options
}
