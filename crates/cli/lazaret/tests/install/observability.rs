//! Alerts and the dashboard.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{render::deploy, tools};

fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source(&path, text);
        } else {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Alerts and the dashboard speak of metrics that there are.
#[test]
fn metrics_that_are_watched_exist() {
    let mut code = String::new();
    for name in ["io/runtime", "plane/controllers"] {
        source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name).join("src"), &mut code);
    }
    let mut watched = BTreeSet::new();
    for file in ["rules.yaml", "dashboard.json"] {
        let text = fs::read_to_string(deploy("observability").join(file)).unwrap();
        let words = text.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
        let is_metric = |word: &&str| {
            ["lazaret_", "device_taint_", "dynamic_resource_"].iter().any(|start| word.starts_with(start))
        };
        watched.extend(words.filter(is_metric).map(str::to_owned));
    }
    assert!(watched.len() >= 15, "{watched:?}");
    for name in watched {
        let base = name.strip_suffix("_total").or(name.strip_suffix("_bucket")).unwrap_or(&name);
        let prefixes = ["device_taint_eviction_controller", "dynamic_resource_allocation"];
        let rest = prefixes.iter().find_map(|prefix| base.strip_prefix(prefix));
        let literal = rest.map_or_else(|| format!("\"{base}\""), |rest| format!("\"{{prefix}}{rest}\""));
        assert!(code.contains(&literal), "nothing counts {name}");
    }
}

/// Where a program is, if there is one.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The expressions of the dashboard, as rules that record them: promtool reads rules and no dashboards.
fn expressions(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Prometheus itself accepts every alert, and every expression of the dashboard.
#[test]
fn prometheus_accepts_the_alerts_and_the_dashboard() {
    let Some(promtool) = program("promtool") else {
        let test = "prometheus_accepts_the_alerts_and_the_dashboard";
        return lazaret_missing::not_run(test, "promtool", "there is no promtool");
    };
    let check = |file: &Path| tools::run(Command::new(&promtool).args(["check", "rules"]).arg(file));
    let alerts = check(&deploy("observability/rules.yaml"));
    assert!(alerts.contains("SUCCESS: 9 rules found"), "{alerts}");
    let board = fs::read_to_string(deploy("observability/dashboard.json")).unwrap();
    let mut found = BTreeSet::new();
    expressions(&serde_json::from_str(&board).unwrap(), &mut found);
    assert!(found.len() >= 10, "{found:?}");
    // Variables of Grafana stand where Prometheus wants a text or a time.
    let rules: Vec<Value> = found
        .iter()
        .enumerate()
        .map(|(at, text)| {
            let text =
                text.replace("$__rate_interval", "5m").replace("$__interval", "1m").replace("$__range", "1h");
            json!({"record": format!("board:{at}"), "expr": text})
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("board.yaml");
    fs::write(&file, json!({"groups": [{"name": "board", "rules": rules}]}).to_string()).unwrap();
    let boards = check(&file);
    assert!(boards.contains(&format!("SUCCESS: {} rules found", found.len())), "{boards}");
    // It would have found a mistake.
    fs::write(
        &file,
        json!({"groups": [{"name": "board", "rules": [{"record": "a", "expr": "sum by (lazaret_leading"}]}]})
            .to_string(),
    )
    .unwrap();
    let refused = Command::new(&promtool).args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(!refused.status.success());
}
