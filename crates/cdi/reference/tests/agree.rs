//! Random specs, read and injected by both.

use std::{collections::HashMap, path::Path};

use container_device_interface::{cache::Cache as Theirs, spec::read_spec};
use lazaret_cdi::{Cache as Ours, Spec, minimum_version};
use oci_spec::runtime::Spec as Oci;
use serde_json::{Value, json};

const SEEDS: u64 = 3_000;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(limit).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// One of the good ones, or once in 40 times one of the bad ones.
    fn word<'a>(&mut self, good: &[&'a str], bad: &[&'a str]) -> &'a str {
        if self.below(40) == 0 { self.pick(bad) } else { self.pick(good) }
    }

    fn is(&mut self) -> bool {
        self.below(3) == 0
    }
}

fn edits(random: &mut Random) -> Value {
    let mut edits = json!({});
    if random.below(8) != 0 {
        let env: Vec<&str> = (0..=random.below(3))
            .map(|_| random.word(&["A=1", "B=2", "PATH=/x", "C=", "D=a=b"], &["=x", "A", ""]))
            .collect();
        edits["env"] = json!(env);
    }
    if random.is() {
        let node = json!({
            "path": random.word(&["/dev/null", "/dev/zero", "/dev/x"], &[""]),
            "hostPath": "/dev/null",
            "type": random.word(&["c", ""], &["q", "b"]),
            "major": 1,
            "minor": 3,
            "permissions": random.word(&["rw", "rwm", "", "r"], &["x", "rwx"]),
        });
        edits["deviceNodes"] = json!([node]);
    }
    if random.is() {
        let mounts: Vec<Value> = (0..=random.below(2))
            .map(|_| {
                json!({
                    "hostPath": random.word(&["/a", "/b/c"], &[""]),
                    "containerPath": random.word(&["/m", "/m/n", "/proc"], &[""]),
                    "options": ["ro", "bind"],
                })
            })
            .collect();
        edits["mounts"] = json!(mounts);
    }
    if random.is() {
        let kinds =
            ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];
        let hook = json!({
            "hookName": random.word(&kinds, &["prestop", ""]),
            "path": random.word(&["/bin/true"], &[""]),
            "args": ["true", "x"],
            "env": [random.word(&["A=1"], &["=", "A"])],
        });
        edits["hooks"] = json!([hook]);
    }
    if random.is() {
        edits["additionalGids"] = json!([random.below(3), 7]);
    }
    if random.is() {
        edits["intelRdt"] =
            json!({"closID": random.word(&["a", "b"], &["", ".", "..", "a/b"]), "l3CacheSchema": "L3:0=f"});
    }
    edits
}

fn spec(random: &mut Random) -> Value {
    let names = ["gpu-0", "gpu-1", "0x", "a:b", "a.b_c"];
    let mut devices: Vec<Value> = Vec::new();
    for at in 0..=random.below(3) {
        let name =
            if random.below(60) == 0 { random.pick(&["", "-a", "a-", "a b", "gpu-0"]) } else { names[at] };
        devices.push(json!({"name": name, "containerEdits": edits(random)}));
    }
    let mut spec = json!({
        "cdiVersion": random.word(&["0.8.0", "1.0.0"], &["0.2.0", "9.9.9", "x", ""]),
        "kind": random.word(&["vendor.com/gpu", "v/c", "a-b.c/d_e"], &["vendor", "/gpu", "v/", "v/c/d", "1v/c", "v/c-"]),
        "devices": devices,
    });
    if random.is() {
        spec["containerEdits"] = edits(random);
    }
    if random.below(50) == 0 {
        spec["surprise"] = json!(1);
    }
    if random.below(50) == 0 {
        spec["devices"] = json!([]);
    }
    spec
}

fn base() -> Value {
    json!({
        "ociVersion": "1.0.2",
        "process": {"cwd": "/", "user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/bin"]},
        "linux": {},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": []}],
    })
}

/// In the form that both share: as typed structs write it, and mounts in one order. Ours sorts them by depth, as Go does;
/// theirs leaves them as they come.
fn canonical(oci: &Value) -> Value {
    let typed: Oci = serde_json::from_value(oci.clone()).unwrap();
    let mut value = serde_json::to_value(typed).unwrap();
    if let Some(mounts) = value["mounts"].as_array_mut() {
        mounts.sort_by_key(|mount| mount["destination"].as_str().unwrap_or_default().to_owned());
    }
    value
}

fn theirs(folder: &Path, ids: &[String]) -> Result<Value, String> {
    let mut cache = Theirs::new(vec![folder.to_str().unwrap().to_owned()], HashMap::new(), HashMap::new());
    cache.refresh().map_err(|error| error.to_string())?;
    let mut oci: Oci = serde_json::from_value(base()).unwrap();
    cache.inject_devices(Some(&mut oci), ids.to_vec()).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(oci).unwrap())
}

#[test]
fn both_accept_the_same_specs_and_make_the_same_of_them() {
    let (mut accepted, mut refused, mut differ) = (0, 0, Vec::new());
    for seed in 0..SEEDS {
        let value = spec(&mut Random(seed));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, value.to_string()).unwrap();
        let ours = lazaret_cdi::read(&path);
        let reference = read_spec(&path, 0);
        let (spec, reference_accepts): (Spec, bool) = match (ours, reference) {
            (Ok(spec), theirs) => (spec, theirs.is_ok()),
            (Err(_), Err(_)) => {
                refused += 1;
                continue;
            }
            (Err(error), Ok(_)) => {
                differ.push(format!("seed {seed}: only ours refuses: {error}\n{value}"));
                continue;
            }
        };
        if !reference_accepts {
            differ.push(format!("seed {seed}: only theirs refuses\n{value}"));
            continue;
        }
        accepted += 1;
        assert!(minimum_version(&spec).to_string() <= spec.version);
        let ids: Vec<String> =
            spec.devices.iter().map(|device| format!("{}={}", spec.kind, device.name)).collect();
        let mut oci = base();
        let injected = Ours::new([folder.path()]).inject(&mut oci, &ids);
        match (injected, theirs(folder.path(), &ids)) {
            (Ok(_), Ok(other)) => {
                if canonical(&oci) != canonical(&other) {
                    differ.push(format!(
                        "seed {seed}: {value}\nours   {}\ntheirs {}",
                        canonical(&oci),
                        canonical(&other)
                    ));
                }
            }
            (Err(_), Err(_)) => {}
            (ours, theirs) => differ.push(format!("seed {seed}: {ours:?}, {theirs:?}\n{value}")),
        }
    }
    assert!(accepted > 500 && refused > 100, "{accepted} accepted, {refused} refused");
    assert!(
        differ.is_empty(),
        "{} of {SEEDS} differ:\n{}",
        differ.len(),
        differ[..differ.len().min(8)].join("\n\n")
    );
}
