//! `lazaret install`: what a cluster needs to run Lazaret, for `kubectl apply -f -`.
//!
//! Everything but the definitions of kinds is `deploy/lazaret.yaml`, which a test renders from the chart with its default values: what this command
//! prints and what Helm installs is the same.

use anyhow::{Context, Result, anyhow, ensure};
use lazaret_model::validate_dns_label;
use lazaret_print::Structured;

use crate::{Verdict, output};

/// The manifests of the chart with its default values.
const MANIFEST: &str = include_str!("../../../../deploy/lazaret.yaml");
/// The namespace and the image that it names.
const NAMESPACE: &str = "lazaret-system";
const IMAGE: &str = concat!("lazaret:", env!("CARGO_PKG_VERSION"));
/// An image is named with its registry, tag and digest.
const IMAGE_BYTES_MAX: usize = 512;

/// Print what a cluster needs to run Lazaret.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the definitions of Lazaret's own kinds and nothing else
    #[arg(long, conflicts_with_all = ["namespace", "image"])]
    crds_only: bool,
    /// The namespace to run in
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// The image to run, with its tag or digest
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
}

const EXAMPLES: &str = "Examples:
  lazaret install | kubectl apply -f -
  lazaret install --image registry.example.com/lazaret:0.1.0 | kubectl apply -f -
  lazaret install --crds-only | kubectl apply -f -
  lazaret install | kubectl delete --ignore-not-found -f -

Everything else can be set in the chart: helm install lazaret deploy/chart --namespace lazaret-system --create-namespace";

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut text = definitions()?;
        if !self.crds_only {
            text.push_str(&manifest(&self.namespace, &self.image)?);
        }
        output::print(&text)?;
        Ok(Verdict::Yes)
    }
}

/// One document for each of Lazaret's own kinds.
fn definitions() -> Result<String> {
    let mut text = String::new();
    for definition in lazaret_server::own_definitions() {
        let json: serde_json::Value =
            serde_json::from_str(&definition.to_string()).context("read a definition")?;
        text.push_str("---\n");
        text.push_str(&Structured::Yaml.text(&json)?);
    }
    Ok(text)
}

/// The namespace, and what runs in it.
fn manifest(namespace: &str, image: &str) -> Result<String> {
    validate_dns_label(namespace).map_err(|why| anyhow!("--namespace {namespace}: {why}"))?;
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"./:@_-".contains(&byte);
    ensure!(
        !image.is_empty() && image.len() <= IMAGE_BYTES_MAX && image.bytes().all(known),
        "--image: write it as registry.example.com/lazaret:0.1.0"
    );
    let body = MANIFEST
        .replace(&format!("namespace: {NAMESPACE}\n"), &format!("namespace: {namespace}\n"))
        .replace(&format!("image: {IMAGE}\n"), &format!("image: {image}\n"));
    Ok(format!(
        "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n  labels:\n    app.kubernetes.io/name: lazaret\n    pod-security.kubernetes.io/enforce: restricted\n{body}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_and_the_image_are_those_that_were_named() {
        let text = manifest("gpu-ops", "registry.example.com/lazaret@sha256:00").unwrap();
        assert!(!text.contains(NAMESPACE) && !text.contains(IMAGE), "{text}");
        assert!(text.contains("\n  name: gpu-ops\n") && text.contains("\n  namespace: gpu-ops\n"));
        assert!(text.contains(" image: registry.example.com/lazaret@sha256:00\n"));
    }

    #[test]
    fn what_would_break_the_text_is_refused() {
        assert!(manifest("a b", IMAGE).is_err() && manifest("", IMAGE).is_err());
        assert!(manifest("a", "x\n  y: z").is_err() && manifest("a", "").is_err());
    }
}
