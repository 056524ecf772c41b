//! Files: what is written, what is read, and what several directories say together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect;
use lazaret_cdi::{
    Cache, ContainerEdits, Device, FILE_BYTES_MAX, InjectError, Spec, SpecDirectory, WriteError, parse_json,
    parse_yaml,
};
use proptest::prelude::*;
use serde_json::json;

fn env(variable: &str) -> ContainerEdits {
    ContainerEdits { env: vec![variable.into()], ..ContainerEdits::default() }
}

fn spec(devices: &[(&str, &str)]) -> Spec {
    Spec::new(
        "vendor.com/gpu",
        devices.iter().map(|(name, variable)| Device::new(*name, env(variable))).collect(),
    )
}

fn two_directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("etc"), folder.path().join("run"));
    (folder, first, second)
}

fn env_of(cache: &mut Cache, names: &[&str]) -> Result<serde_json::Value, InjectError> {
    let mut oci = json!({});
    cache.inject(&mut oci, names)?;
    Ok(oci["process"]["env"].take())
}

#[test]
fn a_written_file_declares_the_lowest_version_and_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let directory = SpecDirectory::new(folder.path().join("cdi"));
    let name = SpecDirectory::transient_name("vendor.com", "gpu", "8f1e/x");
    let stated = Spec { version: "1.1.0".into(), ..spec(&[("8f1e-gpu-0", "A=b")]) };
    let path = directory.write(&name, &stated).unwrap();
    assert_eq!(path, folder.path().join("cdi/vendor.com-gpu_8f1e_x.json"));
    expect![[r#"
        {
          "cdiVersion": "0.5.0",
          "kind": "vendor.com/gpu",
          "devices": [
            {
              "name": "8f1e-gpu-0",
              "containerEdits": {
                "env": [
                  "A=b"
                ]
              }
            }
          ]
        }
    "#]]
    .assert_eq(&fs::read_to_string(&path).unwrap());
    assert_eq!(lazaret_cdi::read(&path).unwrap().devices, stated.devices);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
    directory.remove(&name).unwrap();
    directory.remove(&name).unwrap();
    assert!(!path.exists());
}

#[test]
fn what_is_wrong_is_not_written_and_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let directory = SpecDirectory::new(folder.path());
    let path = directory.write("x", &spec(&[("a", "A=b")])).unwrap();
    let before = fs::read(&path).unwrap();
    let empty = Spec::new("vendor.com/gpu", vec![Device::new("a", ContainerEdits::default())]);
    assert!(matches!(directory.write("x", &empty), Err(WriteError::Invalid(_))));
    assert!(matches!(
        directory.write("x", &Spec::new("vendor.com/gpu", vec![])),
        Err(WriteError::Invalid(_))
    ));
    let large = "A=".to_owned() + &"x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap());
    assert!(matches!(directory.write("x", &spec(&[("a", &large)])), Err(WriteError::TooLarge)));
    for name in ["", ".x", "../x", "a/b", "a\0b"] {
        assert!(
            matches!(directory.write(name, &spec(&[("a", "A=b")])), Err(WriteError::FileName(_))),
            "{name:?}"
        );
        assert!(matches!(directory.remove(name), Err(WriteError::FileName(_))), "{name:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let directory = SpecDirectory::new(folder.path());
    let long = |round: usize| format!("A={}", "x".repeat(round * 1000));
    directory.write("x", &spec(&[("a", "A=b")])).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..50 {
                directory.write("x", &spec(&[("a", &long(round))])).unwrap();
            }
        });
        for _ in 0..200 {
            let cache = Cache::new([folder.path()]);
            assert!(cache.errors().is_empty(), "{:?}", cache.errors());
            assert_eq!(cache.names().collect::<Vec<_>>(), ["vendor.com/gpu=a"]);
        }
    });
}

#[test]
fn a_later_directory_wins_and_a_missing_one_is_no_error() {
    let (_folder, first, second) = two_directories();
    let mut cache = Cache::new([first.clone(), second.clone()]);
    assert!(cache.errors().is_empty());
    SpecDirectory::new(&first).write("a", &spec(&[("0", "FROM=first"), ("1", "ONLY=first")])).unwrap();
    SpecDirectory::new(&second).write("b", &spec(&[("0", "FROM=second")])).unwrap();
    // Unknown names make it read again.
    let both = env_of(&mut cache, &["vendor.com/gpu=0", "vendor.com/gpu=1"]).unwrap();
    assert_eq!(both, json!(["FROM=second", "ONLY=first"]));
    assert_eq!(cache.path_of("vendor.com/gpu=0"), Some(second.join("b.json").as_path()));
}

#[test]
fn a_name_that_is_there_twice_at_one_priority_is_nobodys() {
    let (_folder, first, second) = two_directories();
    SpecDirectory::new(&first).write("a", &spec(&[("0", "A=1"), ("1", "B=1")])).unwrap();
    SpecDirectory::new(&first).write("b", &spec(&[("0", "A=2"), ("2", "C=1")])).unwrap();
    SpecDirectory::new(&second).write("c", &spec(&[("0", "A=3")])).unwrap();
    let mut cache = Cache::new([&first, &second]);
    assert_eq!(cache.errors().len(), 1);
    assert!(cache.errors()[0].to_string().contains("vendor.com/gpu=0 is in"), "{}", cache.errors()[0]);
    assert_eq!(cache.names().collect::<Vec<_>>(), ["vendor.com/gpu=1", "vendor.com/gpu=2"]);
    let error = env_of(&mut cache, &["vendor.com/gpu=1", "vendor.com/gpu=0", "x"]).unwrap_err();
    assert_eq!(error.to_string(), "unresolvable CDI devices vendor.com/gpu=0, x");
}

#[test]
fn a_broken_file_breaks_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let directory = SpecDirectory::new(folder.path());
    directory.write("good", &spec(&[("0", "A=b")])).unwrap();
    fs::write(folder.path().join("a.json"), "{").unwrap();
    fs::write(folder.path().join("b.yaml"), "a: [").unwrap();
    fs::write(folder.path().join("c.json"), vec![b' '; usize::try_from(FILE_BYTES_MAX).unwrap() + 1])
        .unwrap();
    fs::write(folder.path().join("ignored.txt"), "{").unwrap();
    fs::write(folder.path().join(".x.json.1-2.tmp"), "{").unwrap();
    fs::create_dir_all(folder.path().join("folder.json")).unwrap();
    fs::write(folder.path().join("folder.json/inner.json"), "{").unwrap();
    let cache = Cache::new([folder.path()]);
    assert_eq!(cache.names().collect::<Vec<_>>(), ["vendor.com/gpu=0"]);
    let named: Vec<String> = cache.errors().iter().map(ToString::to_string).collect();
    assert_eq!(named.len(), 3, "{named:?}");
    for (error, file) in named.iter().zip(["a.json: parse", "b.yaml: parse", "c.json: is larger"]) {
        assert!(error.contains(file), "{error}");
    }
}

#[test]
fn edits_of_a_file_come_once_and_before_those_of_its_devices() {
    let folder = tempfile::tempdir().unwrap();
    let common = Spec { container_edits: env("COMMON=1"), ..spec(&[("0", "A=0"), ("1", "B=1")]) };
    SpecDirectory::new(folder.path()).write("a", &common).unwrap();
    let mut cache = Cache::new([folder.path()]);
    let names = ["vendor.com/gpu=1", "vendor.com/gpu=0", "vendor.com/gpu=1"];
    let edits = cache.resolve(&names).unwrap();
    assert_eq!(edits.env, ["COMMON=1", "B=1", "A=0"]);
    assert!(matches!(cache.resolve(&vec!["x"; 5000]), Err(InjectError::TooMany(5000))));
}

/// One fault a row: a piece of JSON that is put in for `@` in the devices of a good spec, or a whole spec.
#[test]
fn wrong_specs() {
    let device = |edits: &str| {
        format!(
            r#"{{"cdiVersion":"1.1.0","kind":"v.com/c","devices":[{{"name":"a","containerEdits":{edits}}}]}}"#
        )
    };
    let rows = [
        (r#"{"cdiVersion":"1.2.0","kind":"v/c","devices":[]}"#.to_owned(), "1.2.0\" is unknown"),
        (r#"{"cdiVersion":"1.1.0","kind":"vc","devices":[]}"#.to_owned(), "not vendor/class"),
        (r#"{"cdiVersion":"1.1.0","kind":"v/c","devices":[]}"#.to_owned(), "no devices"),
        (r#"{"cdiVersion":"1.1.0","kind":"v/c","devices":null}"#.to_owned(), "no devices"),
        (r#"{"cdiVersion":"0.3.0","kind":"v/c","devices":[{"name":"1","containerEdits":{"env":["A=b"]}}]}"#.to_owned(), "at least 0.5.0"),
        (r#"{"cdiVersion":"1.1.0","kind":"v/c","devices":[],"extra":1}"#.to_owned(), "extra"),
        (r#"{"cdiVersion":"1.1.0","kind":"v/c","devices":[{"name":"a","containerEdits":{"env":["A=b"]}},{"name":"a","containerEdits":{"env":["A=b"]}}]}"#.to_owned(), "twice"),
        (device("{}"), "has no edits"),
        (device(r#"{"env":null}"#), "has no edits"),
        (device(r#"{"env":["A"]}"#), "NAME=VALUE"),
        (device(r#"{"env":["=b"]}"#), "NAME=VALUE"),
        (device(r#"{"envs":[]}"#), "envs"),
        (device(r#"{"deviceNodes":[{"path":""}]}"#), "no path"),
        (device(r#"{"deviceNodes":[{"path":"/x","type":"q"}]}"#), "unknown type"),
        (device(r#"{"deviceNodes":[{"path":"/x","permissions":"rx"}]}"#), "unknown permissions"),
        (device(r#"{"hooks":[{"hookName":"never","path":"/x"}]}"#), "is unknown"),
        (device(r#"{"hooks":[{"hookName":"prestart","path":""}]}"#), "has no path"),
        (device(r#"{"hooks":[{"hookName":"prestart","path":"/x","env":["x"]}]}"#), "NAME=VALUE"),
        (device(r#"{"mounts":[{"hostPath":"","containerPath":"/x"}]}"#), "hostPath"),
        (device(r#"{"intelRdt":{"closID":"a/b"}}"#), "closID"),
        (device(r#"{"intelRdt":{"closID":".."}}"#), "closID"),
        (device(r#"{"netDevices":[{"hostInterfaceName":"a","name":""}]}"#), "net device"),
        (device(r#"{"netDevices":[{"hostInterfaceName":"a","name":"x"},{"hostInterfaceName":"a","name":"y"}]}"#), "twice"),
        (device(r#"{"netDevices":[{"hostInterfaceName":"a","name":"x"},{"hostInterfaceName":"b","name":"x"}]}"#), "twice"),
    ];
    for (text, part) in rows {
        for error in [parse_json(text.as_bytes()).unwrap_err(), parse_yaml(text.as_bytes()).unwrap_err()] {
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
    parse_json(device(r#"{"intelRdt":{"closID":"/"}}"#).as_bytes()).unwrap();
}

#[test]
fn yaml_with_octal_modes() {
    let text = "---\ncdiVersion: 0.7.0\nkind: vendor.com/gpu\ndevices:\n- name: a\n  containerEdits:\n    deviceNodes:\n    - path: /dev/x\n      fileMode: 0666\n    additionalGids: [5]\n";
    let spec = parse_yaml(text.as_bytes()).unwrap();
    assert_eq!(spec.devices[0].container_edits.device_nodes[0].file_mode, Some(0o666));
}

#[test]
fn aliases_cannot_blow_up() {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..10 {
        let before = format!("*a{},", level - 1).repeat(10);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(',')));
    }
    parse_yaml(text.as_bytes()).unwrap_err();
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_json(&bytes);
        let _ = parse_yaml(&bytes);
    }

    /// A written spec can be read, and means the same.
    #[test]
    fn written_means_read(
        names in prop::collection::btree_set("[a-zA-Z0-9]([a-zA-Z0-9._:-]{0,10}[a-z0-9])?", 1..5),
        variable in "[A-Z]{1,5}=[ -~]{0,20}",
        host in prop::option::of("/[a-z]{1,8}"),
        gids in prop::collection::vec(any::<u32>(), 0..3),
        class in "[a-z]([a-z.]{0,5}[a-z])?",
    ) {
        let mounts = host.iter().map(|path| lazaret_cdi::Mount {
            host_path: path.clone(), container_path: path.clone(), ..lazaret_cdi::Mount::default()
        }).collect();
        let edits = ContainerEdits { env: vec![variable], mounts, additional_gids: gids, ..ContainerEdits::default() };
        let devices = names.iter().map(|name| Device::new(name.as_str(), edits.clone())).collect();
        let spec = Spec::new(format!("v.com/{class}"), devices);
        let folder = tempfile::tempdir().unwrap();
        let path = SpecDirectory::new(folder.path()).write("x", &spec).unwrap();
        let read = lazaret_cdi::read(Path::new(&path)).unwrap();
        prop_assert_eq!(&read.devices, &spec.devices);
        prop_assert_eq!(&read.kind, &spec.kind);
    }
}
