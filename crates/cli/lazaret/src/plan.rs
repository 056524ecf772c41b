//! `lazaret plan`: what a rule would do, without doing it.

use anyhow::{Result, bail};
use lazaret_eviction::{Patience, Preview, PreviewPod, Subject, preview};
use lazaret_fleet::{Fleet, Gates};
use lazaret_model::{Owner, Timestamp};
use serde::Serialize;

use crate::{
    Verdict,
    args::Files,
    clock, input,
    output::{self, Format, Table},
};

/// Show what a DeviceTaintRule would do to the pods in some files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// The rule; it is taken as if its effect were NoExecute
    #[arg(long, value_name = "NAME")]
    rule: String,
    /// The time to plan for, as RFC 3339; now unless given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<Timestamp>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "Examples:
  lazaret plan -f cluster/ --rule drain-gpu-3
  kubectl get resourceslices,resourceclaims,devicetaintrules,deviceclasses,pods -A -o yaml | lazaret plan -f - --rule drain-gpu-3 -o json";

fn parse_time(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|error| format!("{error}: write it as 2026-01-31T23:59:00Z"))?;
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let fleet = input::fleet(input::load(&self.files)?, Gates::default());
        let Some(view) = fleet.rule(&self.rule) else { bail!("{}", unknown_rule(&fleet, &self.rule)) };
        let effect = view.rule.taint.effect.to_string();
        let taint = view.rule.taint.to_string();
        let now = self.at.unwrap_or_else(clock::now);
        let preview = preview(&fleet, now, Subject::Rule(&self.rule));
        if self.output == Format::Table {
            output::print(&table(&self.rule, &taint, &preview, now))?;
        } else {
            output::structured(&Plan::new(&fleet, &self.rule, &taint, &effect, &preview), self.output)?;
        }
        Ok(Verdict::Yes)
    }
}

fn unknown_rule(fleet: &Fleet, name: &str) -> String {
    let known: Vec<String> = fleet.rules().map(|view| view.rule.name.to_string()).collect();
    if known.is_empty() {
        format!("no DeviceTaintRule {name:?}: these files have none")
    } else {
        format!("no DeviceTaintRule {name:?}: these files have {}", known.join(", "))
    }
}

fn table(rule: &str, taint: &str, preview: &Preview, now: Timestamp) -> String {
    let mut text = format!(
        "rule {rule} ({taint}): {} and {} selected, {} would be evicted in {}\n",
        count(preview.published, "published device"),
        count(preview.held.len(), "allocated device"),
        count(preview.pods.len(), "pod"),
        count(preview.namespaces.len(), "namespace"),
    );
    if let Some(problem) = &preview.problem {
        text.push_str(&format!("the rule cannot be evaluated: {problem}\n"));
    }
    let remembered: Vec<String> =
        preview.held.iter().filter(|held| held.from_memory).map(|held| held.device.to_string()).collect();
    if !remembered.is_empty() {
        text.push_str(&format!("selected by what is remembered of them: {}\n", remembered.join(", ")));
    }
    if preview.pods.is_empty() && preview.tolerating.is_empty() {
        return text;
    }
    text.push('\n');
    let mut table = Table::new(&["NAMESPACE", "POD", "NODE", "OWNER", "PRIORITY", "TOLERATES", "EVICTED"]);
    for (pod, stays) in
        preview.pods.iter().map(|pod| (pod, false)).chain(preview.tolerating.iter().map(|pod| (pod, true)))
    {
        table.row([
            pod.pod.namespace.to_string(),
            pod.pod.name.to_string(),
            pod.node.as_ref().map_or_else(|| "<none>".into(), ToString::to_string),
            owner(pod.owner.as_ref()),
            pod.priority.to_string(),
            patience(&pod.patience),
            if stays { "never".into() } else { when(pod.deadline, now) },
        ]);
    }
    text.push_str(&table.to_string());
    text
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn owner(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "<none>".into(), |owner| format!("{}/{}", owner.kind, owner.name))
}

fn patience(patience: &Patience) -> String {
    match patience {
        Patience::Seconds(0) => "no".into(),
        Patience::Seconds(seconds) => format!("{seconds}s"),
        Patience::Forever => "forever".into(),
    }
}

fn when(deadline: Timestamp, now: Timestamp) -> String {
    let wait = deadline.millis_since(now);
    if wait <= 0 { "at once".into() } else { format!("in {}s", wait.saturating_add(999) / 1000) }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    rule: String,
    taint: String,
    effect: String,
    published_devices: Vec<String>,
    allocated_devices: Vec<HeldOut>,
    claims: Vec<String>,
    pods: Vec<PodOut>,
    tolerating: Vec<PodOut>,
    namespaces: std::collections::BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldOut {
    device: String,
    claim: String,
    from_memory: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodOut {
    namespace: String,
    name: String,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    priority: i32,
    /// Absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    toleration_seconds: Option<i64>,
    /// Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
}

impl Plan {
    fn new(fleet: &Fleet, rule: &str, taint: &str, effect: &str, preview: &Preview) -> Self {
        let mut published: Vec<_> =
            fleet.rule_selection(rule).published().map(|device| device.id()).collect();
        published.sort();
        let held = |held: &lazaret_eviction::PreviewDevice| HeldOut {
            device: held.device.to_string(),
            claim: held.claim.to_string(),
            from_memory: held.from_memory,
        };
        Self {
            rule: rule.into(),
            taint: taint.into(),
            effect: effect.into(),
            published_devices: published.iter().map(ToString::to_string).collect(),
            allocated_devices: preview.held.iter().map(held).collect(),
            claims: preview.claims.iter().map(ToString::to_string).collect(),
            pods: preview.pods.iter().map(PodOut::new).collect(),
            tolerating: preview.tolerating.iter().map(PodOut::new).collect(),
            namespaces: preview.namespaces.iter().map(|(name, pods)| (name.to_string(), *pods)).collect(),
            problem: preview.problem.clone(),
        }
    }
}

impl PodOut {
    fn new(pod: &PreviewPod) -> Self {
        Self {
            namespace: pod.pod.namespace.to_string(),
            name: pod.pod.name.to_string(),
            uid: pod.uid.to_string(),
            node: pod.node.as_ref().map(ToString::to_string),
            owner: pod.owner.as_ref().map(|owner| format!("{}/{}", owner.kind, owner.name)),
            priority: pod.priority,
            toleration_seconds: match pod.patience {
                Patience::Seconds(seconds) => Some(seconds),
                Patience::Forever => None,
            },
            deadline: (pod.deadline != Timestamp::NEVER).then(|| lazaret_api::format_time(pod.deadline)),
        }
    }
}
