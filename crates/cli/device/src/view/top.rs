//! The fleet at a glance: how many devices are in which condition, what is being drained, which incidents are open.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::{
    device::{DeviceRow, State},
    incidents::{IncidentRow, incident_row},
};

/// The condition of a device, as the dashboard shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Condition {
    /// No claim holds it and nothing keeps claims away.
    Free,
    /// A claim holds it.
    InUse,
    /// Marked, with no effect on pods.
    Suspect,
    /// A taint keeps new claims away.
    NoSchedule,
    /// A taint evicts the pods that use it.
    Draining,
    /// Drained, and waits for a repair.
    Repairing,
    /// Repaired, and has to prove itself.
    Probation,
    /// A claim holds it and its driver does not publish it any more.
    Gone,
}

impl Condition {
    /// All of them, in the order in which people read them.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::InUse,
        Self::Suspect,
        Self::NoSchedule,
        Self::Draining,
        Self::Repairing,
        Self::Probation,
        Self::Gone,
    ];

    /// The condition of a device with the stage of its open incident, if that one is acted on.
    #[must_use]
    pub fn of(row: &DeviceRow, stage: Option<&str>) -> Self {
        if row.state == State::Gone {
            return Self::Gone;
        }
        match stage {
            Some("Suspect") => return Self::Suspect,
            Some("Quarantined") => return Self::NoSchedule,
            Some("Draining") => return Self::Draining,
            Some("Repairing" | "Abandoned") => return Self::Repairing,
            Some("Probation") => return Self::Probation,
            Some(_) | None => {}
        }
        let has =
            |effect: &str| row.taints.iter().any(|taint| taint.no_effect.is_none() && taint.effect == effect);
        let held = !row.holders.is_empty();
        match (has("NoExecute"), has("NoSchedule"), has("None")) {
            (true, _, _) if held => Self::Draining,
            (true, _, _) | (_, true, _) => Self::NoSchedule,
            (_, _, true) => Self::Suspect,
            _ if held => Self::InUse,
            _ => Self::Free,
        }
    }

    /// A word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::InUse => "in use",
            Self::Suspect => "suspect",
            Self::NoSchedule => "no schedule",
            Self::Draining => "draining",
            Self::Repairing => "repairing",
            Self::Probation => "probation",
            Self::Gone => "gone",
        }
    }
}

/// The devices of a node, or of a pool that belongs to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopGroup {
    /// The node, or the pool.
    pub name: String,
    /// Each device with its name and its condition.
    pub devices: Vec<(String, Condition)>,
}

/// A rule that evicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainRow {
    /// Its name.
    pub rule: String,
    /// Why, as the user that set it wrote it.
    pub reason: String,
    /// Pods that were evicted.
    pub evicted: u64,
    /// Pods that still use its devices.
    pub left: usize,
    /// Whether nothing is left to do.
    pub drained: bool,
}

/// The fleet at a glance.
#[derive(Clone, Debug, Default)]
pub struct Top {
    /// By node.
    pub groups: Vec<TopGroup>,
    /// How many devices are in each condition.
    pub counts: BTreeMap<Condition, usize>,
    /// Rules that evict, those with pods left first.
    pub drains: Vec<DrainRow>,
    /// Open incidents, the newest first.
    pub incidents: Vec<IncidentRow>,
}

impl Top {
    /// From the rows of devices, and rules and incidents as the API has them.
    #[must_use]
    pub fn new<'a>(
        rows: &[DeviceRow],
        rules: impl Iterator<Item = &'a Value>,
        incidents: impl Iterator<Item = &'a Value>,
    ) -> Self {
        let mut open: Vec<IncidentRow> = incidents.map(incident_row).filter(IncidentRow::is_open).collect();
        open.sort_by_key(|incident| std::cmp::Reverse(incident.opened));
        let stages: BTreeMap<&str, &str> = open
            .iter()
            .filter(|incident| incident.is_enforced || incident.stage == "Suspect")
            .map(|incident| (incident.device.as_str(), incident.stage.as_str()))
            .collect();
        let mut top = Self::default();
        let mut groups: BTreeMap<(usize, String), Vec<(String, Condition)>> = BTreeMap::new();
        for row in rows {
            let condition = Condition::of(row, stages.get(row.name.as_str()).copied());
            *top.counts.entry(condition).or_default() += 1;
            let name = row.node.as_ref().unwrap_or(&row.pool).to_string();
            // A longer name is a larger number: node-2 before node-10.
            groups.entry((name.len(), name)).or_default().push((row.device.to_string(), condition));
        }
        for ((_, name), mut devices) in groups {
            devices.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
            top.groups.push(TopGroup { name, devices });
        }
        top.drains = rules.filter_map(|rule| drain(rule, rows)).collect();
        top.drains.sort_by(|one, other| (one.drained, &one.rule).cmp(&(other.drained, &other.rule)));
        top.incidents = open;
        top
    }
}

fn drain(rule: &Value, rows: &[DeviceRow]) -> Option<DrainRow> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if rule["spec"]["taint"]["effect"] != "NoExecute" {
        return None;
    }
    let name = text(&rule["metadata"]["name"]);
    let suffers = |row: &&DeviceRow| {
        row.taints.iter().any(|taint| taint.origin == "DeviceTaintRule" && taint.origin_name == name)
    };
    let holders = rows.iter().filter(suffers).flat_map(|row| &row.holders);
    let pods: BTreeSet<(String, String)> = holders
        .flat_map(|holder| holder.pods.iter().map(|pod| (holder.namespace.to_string(), pod.to_string())))
        .collect();
    let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
    let said = conditions.clone().find(|condition| condition["type"] == "Drained");
    Some(DrainRow {
        reason: text(&rule["metadata"]["annotations"][super::rule::REASON_ANNOTATION]),
        evicted: rule["status"]["evictions"]["pods"].as_u64().unwrap_or_default(),
        drained: said.map_or(pods.is_empty(), |condition| condition["status"] == "True"),
        left: pods.len(),
        rule: name,
    })
}
