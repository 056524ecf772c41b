//! The API as the official Python client uses it. Needs `python3` with `venv`, and a package index for the first run.

use std::{path::Path, process::Command};

use lazaret_testkit::Cluster;

use crate::tools;

#[test]
fn the_official_python_client_works() {
    let cluster = Cluster::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let said = tools::run(Command::new(tools::python()).arg(script).env("KUBECONFIG", cluster.kubeconfig()));
    println!("{said}");
}
