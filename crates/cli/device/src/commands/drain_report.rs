//! How a drain ended, for people and for programs.

use lazaret_model::DeviceId;
use serde::Serialize;

use crate::{
    output::{RESULT_VERSION, count},
    view::{Drain, Plan, Replacement, Waiting},
};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Outcome {
    /// Every device is empty, but for pods that tolerate the taint.
    Drained,
    /// Taints are set, and nobody waited for the pods to go.
    Draining,
    /// Ctrl-C: devices with pods are kept from new ones only.
    Stopped,
    /// Time is up; the taints stay.
    TimedOut,
    /// Nothing was changed.
    DryRun,
}

/// The outcome of a drain for devices and pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DrainReport {
    api_version: &'static str,
    kind: &'static str,
    pub(super) outcome: Outcome,
    devices: Vec<String>,
    /// Pods that are gone.
    gone: Vec<String>,
    /// Pods that still have to leave.
    waiting: Vec<String>,
    /// Pods that tolerate the taint for ever.
    staying: Vec<String>,
    /// Pods that run in place of others.
    replaced: Vec<Replacement>,
    /// Pods that were made in place of others and do not run yet.
    pub(super) pending: Vec<Waiting>,
    /// How far open incidents of the devices are, a line each.
    pub(super) incidents: Vec<String>,
    /// The plan from before it began.
    plan: Plan,
    #[serde(skip)]
    closed: usize,
    #[serde(skip)]
    unreplaced: usize,
}

impl DrainReport {
    pub(super) fn new(outcome: Outcome, devices: &[DeviceId], drain: &Drain, plan: Plan) -> Self {
        let names =
            |keys: Vec<&lazaret_model::ObjectKey>| keys.into_iter().map(ToString::to_string).collect();
        Self {
            api_version: RESULT_VERSION,
            kind: "DrainResult",
            outcome,
            devices: devices.iter().map(ToString::to_string).collect(),
            gone: drain.left().iter().map(ToString::to_string).collect(),
            waiting: names(drain.waiting()),
            staying: names(drain.staying()),
            replaced: drain.replaced().to_vec(),
            pending: drain.pending().to_vec(),
            incidents: Vec::new(),
            plan,
            closed: drain.closed(),
            unreplaced: drain.unreplaced(),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let devices = count(self.closed, "device");
        let gone = count(self.gone.len(), "pod");
        let mut text = match self.outcome {
            Outcome::Drained => format!("{devices} drained: {gone} gone"),
            Outcome::Draining => format!("{devices} draining: {gone} gone, {} to go", self.waiting.len()),
            Outcome::Stopped => {
                format!("stopped: {devices} cordoned, {gone} gone, {} not evicted", self.waiting.len())
            }
            Outcome::TimedOut | Outcome::DryRun => format!("{devices}: {gone} gone"),
        };
        if !self.replaced.is_empty() {
            text.push_str(&format!(", {} replaced", self.replaced.len()));
        }
        if !self.pending.is_empty() {
            text.push_str(&format!(", {} Pending", self.pending.len()));
        }
        // Pods without an owner are not replaced by anybody.
        if let missing @ 1.. = self.unreplaced.saturating_sub(self.pending.len())
            && self.outcome == Outcome::Drained
        {
            text.push_str(&format!(", {missing} without a replacement yet"));
        }
        text.push('\n');
        for waiting in &self.pending {
            let reason =
                if waiting.reason.is_empty() { "the scheduler has not said why" } else { &waiting.reason };
            text.push_str(&format!("pod {} is Pending: {reason}\n", waiting.pod));
        }
        for pod in &self.staying {
            text.push_str(&format!("pod {pod} tolerates the taint and stays\n"));
        }
        for incident in &self.incidents {
            text.push_str(&format!("{incident}\n"));
        }
        text
    }
}
