//! `lazaret allocate`: which devices claims would be given, or why they get none.

mod explain;

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lazaret_allocator::{
    Allocator, Answer, Features, Found, NodeSearch, Options, Overlay, Request, TimedTolerations,
};
use lazaret_api::{Objects, allocation_to_json};
use lazaret_model::{Allocation, ClaimSource, Node, ObjectKey, ResourceClaim, Text};
use serde_json::{Value, json};

use crate::{
    Verdict,
    args::Files,
    clock, input,
    output::{self, Format, Table},
};

/// Show which devices claims would be given, or why they get none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    files: Files,
    /// Look on this node only; without it, on every node in order of name
    #[arg(long, value_name = "NAME")]
    node: Option<Text>,
    /// Allocate this claim; may be given several times, the claims are then allocated together
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "pod")]
    claim: Vec<String>,
    /// Allocate the claims of this pod that have nothing yet
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pod: Option<String>,
    /// Features to turn on or off, as in Kubernetes
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", hide_default_value = true)]
    feature_gates: String,
    /// Prefer devices without informational taints, and pack partitions tightly
    #[arg(long)]
    prefer_healthy: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "Examples:
  lazaret allocate -f cluster/ --claim default/training --node node-1
  lazaret allocate -f cluster/ --pod default/trainer -o yaml
  lazaret allocate -f cluster/ --feature-gates DRAListTypeAttributes=true

Exit codes: 0 allocated, 2 does not fit, 1 error.";

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let features = Features::parse(&self.feature_gates)
            .map_err(|error| anyhow::anyhow!("--feature-gates: {error}"))?;
        let objects = input::load(&self.files)?;
        let claims = self.claims(&objects)?;
        let nodes = self.nodes(&objects)?;
        let snapshot = input::fleet(objects, features.fleet_gates()).snapshot();
        let options = Options {
            prefer_healthy: self.prefer_healthy,
            timed_tolerations: TimedTolerations::LastUntilOver(clock::now()),
            ..Options::default()
        };
        let overlay = Overlay::new();
        let mut allocator = Allocator::new(features);
        let mut share_id = share_ids();
        if let [node] = nodes.as_slice() {
            let request = Request {
                snapshot: &snapshot,
                node,
                claims: &claims,
                in_flight: &overlay,
                options: &options,
            };
            return match allocator.allocate(&request, &mut share_id) {
                Answer::Allocated(allocations) => self.allocated(&claims, &node.name, &allocations),
                Answer::DoesNotFit(why) => self.refused(explain::node(&why, false), &explain::text(&why)),
                Answer::BudgetExhausted(why) => {
                    let text =
                        format!("the search was ended after {} steps; {}", why.steps, explain::text(&why));
                    self.refused(explain::node(&why, true), &text)
                }
                Answer::Failed(error) => bail!("{error}"),
            };
        }
        let search = NodeSearch {
            snapshot: &snapshot,
            nodes: &nodes,
            claims: &claims,
            in_flight: &overlay,
            options: &options,
        };
        match allocator.find_node(&search, &mut share_id) {
            Found::Node { index, allocations } => self.allocated(&claims, &nodes[index].name, &allocations),
            Found::Nowhere(groups) => self.refused(explain::nodes(&groups), &explain::nodes_text(&groups)),
            Found::Failed(error) => bail!("{error}"),
            // A command has no bound on its work but that of a search.
            Found::Unfinished { refused: groups, .. } => {
                self.refused(explain::nodes(&groups), &explain::nodes_text(&groups))
            }
        }
    }

    fn nodes(&self, objects: &Objects) -> Result<Vec<Arc<Node>>> {
        let mut nodes: Vec<Arc<Node>> = objects.nodes.iter().cloned().map(Arc::new).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let Some(wanted) = &self.node else {
            ensure!(
                !nodes.is_empty(),
                "these files have no Node: add one, or name a node without labels with --node"
            );
            return Ok(nodes);
        };
        let found = nodes.into_iter().find(|node| node.name == *wanted);
        // A node that is not in the files has a name and nothing else.
        Ok(vec![found.unwrap_or_else(|| Arc::new(Node { name: wanted.clone(), ..Node::default() }))])
    }

    fn claims(&self, objects: &Objects) -> Result<Vec<Arc<ResourceClaim>>> {
        let keys: Vec<ObjectKey> = if let Some(pod) = &self.pod {
            claims_of_pod(objects, pod)?
        } else if self.claim.is_empty() {
            let mut keys: Vec<ObjectKey> = objects
                .claims
                .iter()
                .filter(|claim| claim.allocation.is_none())
                .map(|claim| claim.key.clone())
                .collect();
            keys.sort();
            keys
        } else {
            self.claim.iter().map(|text| key("--claim", text)).collect::<Result<_>>()?
        };
        let mut claims = Vec::new();
        for key in keys {
            let claim = objects
                .claims
                .iter()
                .find(|claim| claim.key == key)
                .with_context(|| format!("no ResourceClaim {key} in these files"))?;
            ensure!(
                claim.allocation.is_none(),
                "ResourceClaim {key} is already allocated: remove its status to allocate it anew"
            );
            claims.push(Arc::new(claim.clone()));
        }
        ensure!(
            !claims.is_empty(),
            "nothing to allocate: these files have no ResourceClaim without an allocation"
        );
        Ok(claims)
    }

    fn allocated(
        &self,
        claims: &[Arc<ResourceClaim>],
        node: &Text,
        allocations: &[Allocation],
    ) -> Result<Verdict> {
        if self.output == Format::Table {
            let mut table = Table::new(&["CLAIM", "REQUEST", "DEVICE", "NODE"]);
            for (claim, allocation) in claims.iter().zip(allocations) {
                for result in &allocation.results {
                    table.row([
                        claim.key.to_string(),
                        result.request.to_string(),
                        result.device.to_string(),
                        node.to_string(),
                    ]);
                }
            }
            output::print(&table.to_string())?;
        } else {
            let claims: Vec<Value> = claims
                .iter()
                .zip(allocations)
                .map(|(claim, allocation)| {
                    json!({"namespace": &*claim.key.namespace, "name": &*claim.key.name, "allocation": allocation_to_json(allocation)})
                })
                .collect();
            output::structured(&json!({"fits": true, "node": &**node, "claims": claims}), self.output)?;
        }
        Ok(Verdict::Yes)
    }

    fn refused(&self, whole: Value, text: &str) -> Result<Verdict> {
        if self.output == Format::Table {
            output::note(text);
        } else {
            output::structured(&whole, self.output)?;
        }
        Ok(Verdict::No)
    }
}

fn claims_of_pod(objects: &Objects, text: &str) -> Result<Vec<ObjectKey>> {
    let wanted = key("--pod", text)?;
    let pod = objects
        .pods
        .iter()
        .find(|pod| pod.key == wanted)
        .with_context(|| format!("no Pod {wanted} in these files"))?;
    let mut keys = Vec::new();
    for entry in &pod.claims {
        let name = match &entry.source {
            ClaimSource::Claim(name) | ClaimSource::Template { resolved: Some(Some(name)), .. } => name,
            ClaimSource::Template { resolved: Some(None), .. } => continue,
            ClaimSource::Template { template, resolved: None } => {
                bail!(
                    "pod {wanted}: entry {} has no claim yet for template {template}: status.resourceClaimStatuses does not name one",
                    entry.name
                )
            }
            ClaimSource::Unknown => {
                bail!("pod {wanted}: entry {} names neither a claim nor a template", entry.name)
            }
        };
        let key = ObjectKey::new(wanted.namespace.clone(), name.clone());
        let claim = objects
            .claims
            .iter()
            .find(|claim| claim.key == key)
            .with_context(|| format!("no ResourceClaim {key} in these files"))?;
        if claim.allocation.is_none() {
            keys.push(key);
        }
    }
    ensure!(!keys.is_empty(), "pod {wanted} has no claim that still needs devices");
    Ok(keys)
}

/// `namespace/name`, or a name in the namespace `default`.
fn key(option: &str, text: &str) -> Result<ObjectKey> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    ensure!(
        !namespace.is_empty() && !name.is_empty() && !name.contains('/'),
        "{option} {text:?}: write it as NAMESPACE/NAME"
    );
    Ok(ObjectKey::new(namespace, name))
}

/// Identifiers for shares: numbered, so that the same files give the same output.
fn share_ids() -> impl FnMut() -> Text {
    let mut next = 0_u64;
    move || {
        next += 1;
        format!("00000000-0000-4000-8000-{next:012x}").into()
    }
}
