//! Health policies, incidents and signals of `lazaret.dev/v1alpha1`.

mod account;
mod described;
mod incident;
mod policy;
mod tally;

pub use account::{REPAIR_NAMESPACE, ServiceAccount, account_refusal};
pub use described::Described;
pub use incident::{incident_status_to_json, incident_to_json, read_incident, read_signal};
pub use policy::{HealthPolicy, HealthStep, Validation, read_health_policy};
pub use tally::tallies_to_json;

use lazaret_cel::Datum;
use lazaret_lifecycle::DoneWhen;
use serde_json::Value;

/// Whether an object that another controller acts on reports that it is done.
#[must_use]
pub fn done(when: &DoneWhen, object: &[u8]) -> bool {
    serde_json::from_slice::<Value>(object).is_ok_and(|object| when.holds(datum(&object)))
}

fn datum(value: &Value) -> Datum {
    match value {
        Value::Null => Datum::null(),
        Value::Bool(value) => Datum::bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Datum::int(number),
            None => Datum::double(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Datum::text(text),
        Value::Array(items) => Datum::list(items.iter().map(datum)),
        Value::Object(map) => {
            Datum::map(map.iter().map(|(name, value)| (name.as_str().into(), datum(value))))
        }
    }
}
