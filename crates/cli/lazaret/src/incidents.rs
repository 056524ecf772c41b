//! How long incidents are kept.

use anyhow::{Result, ensure};
use lazaret_api::REPAIR_NAMESPACE;
use lazaret_controllers::IncidentHistory;
use lazaret_model::validate_dns_label;

/// Namespaces that one installation may allow.
const NAMESPACES_MAX: usize = 16;

/// Flags about incidents of devices.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IncidentArgs {
    /// Delete incidents of devices this long after their end, as in 720h; of more than 10,000 the oldest goes before
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = keep)]
    incident_history: i64,
    /// Namespaces of the service accounts that DeviceHealthPolicies may name: what a policy repairs and validates with is created as such an account, and with its rights alone
    #[arg(long, value_name = "NAMESPACE,...", value_delimiter = ',', default_value = REPAIR_NAMESPACE, value_parser = namespace)]
    repair_namespaces: Vec<String>,
}

impl IncidentArgs {
    /// Namespaces of accounts that policies may name.
    pub(crate) fn repair_namespaces(&self) -> Result<Vec<String>> {
        let many = self.repair_namespaces.len();
        ensure!(many <= NAMESPACES_MAX, "--repair-namespaces: {many} namespaces, {NAMESPACES_MAX} at most");
        Ok(self.repair_namespaces.clone())
    }

    pub(crate) fn history(&self) -> IncidentHistory {
        IncidentHistory { keep_ms: self.incident_history, ..IncidentHistory::default() }
    }
}

fn namespace(text: &str) -> Result<String, String> {
    validate_dns_label(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Milliseconds.
fn keep(text: &str) -> Result<i64, String> {
    crate::policy::duration(text).and_then(|millis| {
        if millis > 0 { Ok(millis) } else { Err("must be longer than nothing".to_owned()) }
    })
}
