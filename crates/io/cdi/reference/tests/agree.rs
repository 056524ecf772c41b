//! Random specs, read and injected by both. Where the two differ on purpose, the difference has a name here, and the test fails
//! when it is not met any more.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use container_device_interface::{cache::Cache as Theirs, spec::read_spec};
use lazaret_cdi::{Cache as Ours, Spec, minimum_version};
use oci_spec::runtime::Spec as Oci;
use serde_json::{Value, json};

const SEEDS: u64 = 1_500;

/// A difference: its name, which of the two does what, and what makes both the same. Ours does what the CDI project's Go
/// implementation does.
const DIFFERENCES: &[(&str, &str, fn(&mut Value))] = &[
    ("mounts-by-depth", "ours sorts mounts by depth, the crate leaves them as they come", sort_mounts),
    (
        "environment-of-the-image",
        "ours replaces a variable that the container had before, the crate adds a second one",
        unite_environment,
    ),
    ("mode-of-the-host", "ours takes the mode of the host's device node, the crate none", drop_modes),
    ("empty-class-of-service", "ours leaves an empty closID out, the crate writes it", drop_empty_class),
];

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
            "uid": random.below(2),
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
    if random.below(12) == 0 {
        let name = random.word(&["net1", "net2"], &[""]);
        edits["netDevices"] =
            json!([{"hostInterfaceName": random.word(&["eth1", "eth2"], &[""]), "name": name}]);
    }
    if random.is() {
        edits["intelRdt"] =
            json!({"closID": random.word(&["a", "b", ""], &[".", "..", "a/b"]), "l3CacheSchema": "L3:0=f"});
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
        "cdiVersion": random.word(&["0.8.0", "1.0.0", "1.1.0", "1.1.0"], &["0.2.0", "9.9.9", "x", ""]),
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
        "process": {"cwd": "/", "user": {"uid": 5, "gid": 6}, "args": ["sh"], "env": ["PATH=/bin"]},
        "linux": {},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": []}],
    })
}

fn sort_mounts(oci: &mut Value) {
    if let Some(mounts) = oci["mounts"].as_array_mut() {
        mounts.sort_by_key(|mount| mount["destination"].as_str().unwrap_or_default().to_owned());
    }
}

fn unite_environment(oci: &mut Value) {
    let env = oci["process"]["env"].as_array().cloned().unwrap_or_default();
    let name = |variable: &Value| variable.as_str().unwrap().split('=').next().unwrap().to_owned();
    let last: BTreeMap<String, Value> =
        env.iter().map(|variable| (name(variable), variable.clone())).collect();
    oci["process"]["env"] = last.into_values().collect();
}

fn drop_modes(oci: &mut Value) {
    for device in oci["linux"]["devices"].as_array_mut().into_iter().flatten() {
        device.as_object_mut().unwrap().remove("fileMode");
    }
}

fn drop_empty_class(oci: &mut Value) {
    if let Some(rdt) = oci["linux"]["intelRdt"].as_object_mut() {
        rdt.retain(|_, value| value != "");
    }
}

/// As typed structs write it.
fn typed(oci: &Value) -> Value {
    let typed: Oci = serde_json::from_value(oci.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

/// The differences that make the one into the other; none if they are the same; an error if there is another one.
fn differences(ours: &Value, theirs: &Value) -> Result<Vec<&'static str>, ()> {
    let (mut ours, mut theirs) = (typed(ours), typed(theirs));
    let mut met = Vec::new();
    for (name, _, unite) in DIFFERENCES {
        let (mut a, mut b) = (ours.clone(), theirs.clone());
        unite(&mut a);
        unite(&mut b);
        // It is met if it was what made a part of them differ.
        let part = match *name {
            "mounts-by-depth" => "/mounts",
            "environment-of-the-image" => "/process/env",
            "empty-class-of-service" => "/linux/intelRdt",
            _ => "/linux/devices",
        };
        if ours.pointer(part) != theirs.pointer(part) && a.pointer(part) == b.pointer(part) {
            met.push(*name);
        }
        (ours, theirs) = (a, b);
    }
    if ours == theirs { Ok(met) } else { Err(()) }
}

fn theirs(folders: &[&Path], ids: &[String]) -> Result<Value, String> {
    let folders = folders.iter().map(|folder| folder.to_str().unwrap().to_owned()).collect();
    let mut cache = Theirs::new(folders, HashMap::new(), HashMap::new());
    cache.refresh().map_err(|error| error.to_string())?;
    let mut oci: Oci = serde_json::from_value(base()).unwrap();
    cache.inject_devices(Some(&mut oci), ids.to_vec()).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(oci).unwrap())
}

/// The results of all seeds.
#[derive(Default)]
struct Count {
    accepted: usize,
    refused: usize,
    met: BTreeMap<&'static str, usize>,
    differ: Vec<String>,
}

impl Count {
    fn injected(&mut self, seed: u64, what: &Value, folders: &[&Path], ids: &[String]) {
        let mut oci = base();
        let injected = Ours::new(folders.iter().copied()).inject(&mut oci, ids);
        match (injected, theirs(folders, ids)) {
            (Ok(()), Ok(other)) => match differences(&oci, &other) {
                Ok(met) => met.into_iter().for_each(|name| *self.met.entry(name).or_default() += 1),
                Err(()) => self.differ.push(format!(
                    "seed {seed}: {what}\nours   {}\ntheirs {}",
                    typed(&oci),
                    typed(&other)
                )),
            },
            (Err(_), Err(_)) => {}
            (ours, theirs) => self.differ.push(format!("seed {seed}: {ours:?}, {theirs:?}\n{what}")),
        }
    }

    fn check(&self) {
        let count = self.differ.len();
        assert!(self.differ.is_empty(), "{count} differ:\n{}", self.differ[..count.min(8)].join("\n\n"));
    }

    fn check_differences(&self) {
        for (name, what, _) in DIFFERENCES {
            assert!(self.met.contains_key(name), "{name} is not met any more: {what}");
        }
    }
}

#[test]
fn both_accept_the_same_specs_and_make_the_same_of_them() {
    let mut count = Count::default();
    for seed in 0..SEEDS {
        let value = spec(&mut Random(seed));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, value.to_string()).unwrap();
        match (lazaret_cdi::read(&path), read_spec(&path, 0)) {
            (Ok(spec), Ok(_)) => {
                count.accepted += 1;
                assert!(minimum_version(&spec).to_string() <= spec.version);
                count.injected(seed, &value, &[folder.path()], &ids(&spec));
            }
            (Err(_), Err(_)) => count.refused += 1,
            (Err(error), Ok(_)) => {
                count.differ.push(format!("seed {seed}: only ours refuses: {error}\n{value}"));
            }
            (Ok(_), Err(error)) => {
                count.differ.push(format!("seed {seed}: only theirs refuses: {error:#}\n{value}"));
            }
        }
    }
    assert!(count.accepted > 500 && count.refused > 100, "{} {}", count.accepted, count.refused);
    count.check();
    count.check_differences();
}

fn ids(spec: &Spec) -> Vec<String> {
    spec.devices.iter().map(|device| format!("{}={}", spec.kind, device.name)).collect()
}

/// A spec that both take, of this kind.
fn valid(random: &mut Random, kind: &str) -> (Value, Spec) {
    loop {
        let mut value = spec(random);
        value["kind"] = json!(kind);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, value.to_string()).unwrap();
        if let (Ok(spec), Ok(_)) = (lazaret_cdi::read(&path), read_spec(&path, 0)) {
            return (value, spec);
        }
    }
}

#[test]
fn devices_of_several_files_and_directories_are_found_and_applied_alike() {
    let mut count = Count::default();
    for seed in 0..SEEDS / 5 {
        let mut random = Random(seed);
        let (low, high) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut all = Vec::new();
        let mut files = Vec::new();
        for (folder, name, kind) in [
            (&low, "a.json", "v/c"),
            (&low, "b.yaml", "w/c"),
            (&high, "a.json", "v/c"),
            (&high, "c.txt", "x/c"),
        ] {
            let (value, spec) = valid(&mut random, kind);
            fs::write(folder.path().join(name), value.to_string()).unwrap();
            all.extend(ids(&spec));
            files.push(value);
        }
        // Some of them, in any order; of a file that is no spec as well, now and then.
        let mut wanted: Vec<String> = Vec::new();
        for _ in 0..=random.below(4) {
            let id = all[random.below(all.len())].clone();
            if !wanted.contains(&id) {
                wanted.push(id);
            }
        }
        count.injected(seed, &json!({"files": files, "ids": wanted}), &[low.path(), high.path()], &wanted);
    }
    count.check();
}

/// Differences of the crate with files; ours does what Go does. A difference that is gone is to be taken out.
#[test]
fn files_that_the_crate_treats_otherwise() {
    let good = |kind: &str| {
        json!({"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}]}).to_string()
    };
    let write = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let both = |folder: &Path, id: &str| {
        let ids = [id.to_owned()];
        let ours = Ours::new([folder]).inject(&mut base(), &ids).is_ok();
        (ours, theirs(&[folder], &ids).is_ok())
    };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &good("v/c"));
    assert_eq!(both(folder.path(), "v/c=d"), (true, true), "nothing is wrong yet");

    write(folder.path(), "broken.json", "{");
    assert_eq!(both(folder.path(), "v/c=d"), (true, false), "one-broken-file: fails all others in the crate");
    fs::remove_file(folder.path().join("broken.json")).unwrap();

    fs::create_dir(folder.path().join("inside")).unwrap();
    write(&folder.path().join("inside"), "b.json", &good("w/c"));
    assert_eq!(both(folder.path(), "w/c=d"), (false, true), "sub-directories: the crate reads them");

    write(folder.path(), "twin.json", &good("v/c"));
    let mut cache = Theirs::new(vec![folder.path().to_str().unwrap().into()], HashMap::new(), HashMap::new());
    let _ = cache.refresh();
    let mut oci: Oci = serde_json::from_value(base()).unwrap();
    let theirs = cache.inject_devices(Some(&mut oci), vec!["v/c=d".into()]).is_ok();
    let ours = Ours::new([folder.path()]).inject(&mut base(), &["v/c=d"]).is_ok();
    assert_eq!((ours, theirs), (false, true), "twins-of-one-priority: the crate takes one of them");
}

/// A file that comes later is found by ours when it is asked for; the crate must be told to look.
#[test]
fn files_that_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Ours::new([folder.path()]);
    let mut theirs =
        Theirs::new(vec![folder.path().to_str().unwrap().into()], HashMap::new(), HashMap::new());
    theirs.refresh().unwrap();
    let spec = json!({"cdiVersion": "0.6.0", "kind": "v/c", "devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}]});
    fs::write(folder.path().join("a.json"), spec.to_string()).unwrap();
    let mut oci: Oci = serde_json::from_value(base()).unwrap();
    assert!(ours.inject(&mut base(), &["v/c=d"]).is_ok());
    assert!(theirs.inject_devices(Some(&mut oci), vec!["v/c=d".into()]).is_err(), "no-refresh");
    theirs.refresh().unwrap();
    assert!(theirs.inject_devices(Some(&mut oci), vec!["v/c=d".into()]).is_ok());
}
