//! `lazaret node image`, as a user runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    fs::File,
    path::Path,
    process::{Command, Output, Stdio},
};

use lazaret_images::{ImageConfig, layout::Layout, layout::Node};

fn lazaret(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret"));
    command.args(["node", "image"]).args(words).arg("--root").arg(root);
    command
}

fn run(root: &Path, words: &[&str]) -> Output {
    lazaret(root, words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn images_are_imported_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("node");
    let archive = folder.path().join("image.tar");
    let content = Node::File { mode: 0o644, content: vec![b'x'; 1_536] };
    let layout = Layout::new("localhost/app:1", ImageConfig::default()).layer([("file".to_owned(), content)]);
    layout.write_tar(File::create(&archive).unwrap()).unwrap();

    let imported = run(&root, &["import", archive.to_str().unwrap()]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let table = text(&imported.stdout);
    assert!(
        table.starts_with("NAME              ID             LAYERS   SIZE\nlocalhost/app:1   "),
        "{table}"
    );
    assert!(table.ends_with("   1        1.5KiB\n"), "{table}");

    // From a stream, under another name.
    let piped = lazaret(&root, &["import", "-", "--name", "app:2"])
        .stdin(File::open(&archive).unwrap())
        .output()
        .unwrap();
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    let listed = run(&root, &["list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|image| image["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["docker.io/library/app:2", "localhost/app:1"]);
    assert_eq!(listed[0]["id"], listed[1]["id"]);
    assert_eq!(listed[0]["bytes"], 1_536);
    let layer = Path::new(listed[0]["layers"][0].as_str().unwrap());
    assert!(layer.starts_with(&root) && layer.join("file").is_file());

    let removed = run(&root, &["remove", "localhost/app:1", "localhost/none:1"]);
    assert_eq!(removed.status.code(), Some(1));
    let notes = text(&removed.stderr);
    assert!(
        notes.contains("removed localhost/app:1\n")
            && notes.contains("image \"localhost/none:1\" is not there"),
        "{notes}"
    );
    let pruned = run(&root, &["prune", "-o", "json"]);
    let pruned: serde_json::Value = serde_json::from_slice(&pruned.stdout).unwrap();
    assert_eq!(pruned, serde_json::json!({"names": ["docker.io/library/app:2"], "bytes": 1_536}));
    assert!(!layer.exists());
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let failed = |words: &[&str]| {
        let output = lazaret(folder.path(), words).stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(failed(&["pull", "Not A Name"]).contains("couldn't parse image name \"Not A Name\""));
    assert!(
        failed(&["import", "/nowhere.tar"]).contains("import /nowhere.tar: open /nowhere.tar: No such file")
    );
    let refused = failed(&["pull", "127.0.0.1:1/app:1", "--pull-secret", "/nowhere.json"]);
    assert!(refused.contains("read /nowhere.json"), "{refused}");
}
