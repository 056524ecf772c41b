//! The manifests that the chart and the program make.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    support::{Cluster, LAZARET},
    tools,
};

/// Where definitions of kinds are.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A file or folder of `deploy/`.
pub(crate) fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy").join(path)
}

/// Helm that keeps its files in this folder.
pub(crate) fn helm_in(folder: &Path) -> Command {
    let mut command = Command::new(tools::helm());
    for home in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(home, folder.join("helm"));
    }
    command
}

/// The manifests of the chart with these settings, without a cluster.
pub(crate) fn try_template(settings: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = helm_in(folder.path());
    command.args(["template", "lazaret"]).arg(deploy("chart"));
    command.args(["--namespace", "lazaret-system", "--kube-version", "1.37.0"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The same, as objects; it must succeed.
pub(crate) fn template(settings: &[&str]) -> Vec<Value> {
    documents(&try_template(settings).unwrap())
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let all = text.split("---\n").filter(|document| !document.trim().is_empty());
    all.map(|document| serde_saphyr::from_str::<Value>(document).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

/// The output of the program.
pub(crate) fn lazaret(words: &[&str]) -> String {
    tools::run(Command::new(LAZARET).args(words))
}

/// Leaves a cluster without Lazaret's own kinds, as any other is.
pub(crate) fn forget_own_kinds(cluster: &Cluster) {
    for name in cluster.names(CRDS) {
        cluster.send("DELETE", &format!("{CRDS}/{name}"), &Value::Null);
    }
    cluster.until("the definitions are gone", |cluster| cluster.names(CRDS).is_empty());
}

/// The path of an object's collection.
pub(crate) fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("/namespaces/{name}"));
    format!("/{root}/{version}{}/{plural}", namespace.unwrap_or_default())
}
