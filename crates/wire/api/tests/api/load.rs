//! Files: documents, lists, directories, limits.

use std::fs;

use expect_test::{Expect, expect};
use lazaret_api::{FILE_BYTES_MAX, Objects, load, load_text};

fn summary(objects: &Objects) -> String {
    let names = [
        ("slices", objects.slices.iter().map(|o| o.name.to_string()).collect::<Vec<_>>()),
        ("classes", objects.classes.iter().map(|o| o.name.to_string()).collect()),
        ("claims", objects.claims.iter().map(|o| o.key.to_string()).collect()),
        ("templates", objects.templates.iter().map(|o| o.key.to_string()).collect()),
        ("rules", objects.rules.iter().map(|o| o.name.to_string()).collect()),
        ("patches", objects.patches.iter().map(|o| o.name.to_string()).collect()),
        ("pods", objects.pods.iter().map(|o| o.key.to_string()).collect()),
        ("nodes", objects.nodes.iter().map(|o| o.name.to_string()).collect()),
        ("skipped", objects.skipped.iter().map(|(kind, count)| format!("{kind} {count}")).collect()),
    ];
    names
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}\n", names.join(", ")))
        .collect()
}

fn check(name: &str, text: &str, expect: Expect) {
    let told = match load_text(name, text) {
        Ok(objects) => summary(&objects),
        Err(errors) => format!("{errors}\n"),
    };
    expect.assert_eq(&told);
}

fn node(name: &str) -> String {
    format!("apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n")
}

#[test]
fn documents_of_a_file() {
    let text = format!(
        "# A fleet.\n---\n{}---\n# nothing here\n--- # the second\n{}---\napiVersion: v1\nkind: Secret\n---\n",
        node("a"),
        node("b")
    );
    check(
        "f.yaml",
        &text,
        expect![[r#"
        nodes: a, b
        skipped: Secret 1
    "#]],
    );
}

#[test]
fn lists() {
    let item = |name: &str| format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}}}}"#);
    let bare = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    check(
        "f.json",
        &format!(r#"{{"apiVersion":"v1","kind":"List","items":[{},{}]}}"#, item("a"), item("b")),
        expect![[r#"
            nodes: a, b
        "#]],
    );
    // A typed list, whose items leave out what the list has said.
    check(
        "f.json",
        &format!(r#"{{"apiVersion":"v1","kind":"NodeList","items":[{},{}]}}"#, bare("a"), bare("b")),
        expect![[r#"
            nodes: a, b
        "#]],
    );
    check(
        "f.json",
        &format!("[{}, {}]", item("a"), item("b")),
        expect![[r#"
        nodes: a, b
    "#]],
    );
    check(
        "f.json",
        &format!("{}\n{}", item("a"), item("b")),
        expect![[r#"
        nodes: a, b
    "#]],
    );
    check(
        "f.yaml",
        &format!("apiVersion: v1\nkind: List\nitems:\n- {}\n", item("a")),
        expect![[r#"
        nodes: a
    "#]],
    );
    check("f.json", r#"{"apiVersion":"v1","kind":"List","items":null}"#, expect![]);
    check(
        "f.json",
        &format!(r#"{{"apiVersion":"v1","kind":"List","items":[{},{}]}}"#, item("a"), bare("b")),
        expect![[r#"
            f.json: document 1, item 2 (b): kind: is required
        "#]],
    );
    check(
        "f.json",
        r#"{"apiVersion":"v1","kind":"List","items":[1]}"#,
        expect![[r#"
        f.json: document 1, item 1: is not an object
    "#]],
    );
    check(
        "f.json",
        &format!("{}{}{}", "[".repeat(20), item("a"), "]".repeat(20)),
        expect![[r#"
        f.json: document 1, item 1: has lists too deep
    "#]],
    );
}

#[test]
fn every_error_is_told_with_its_place() {
    let claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, namespace: default}\nspec: {devices: {requests: [{name: r, exactly: {count: -1}}]}}\n";
    let text =
        format!("{}---\n{}---\n{claim}---\nfoo: [bar\n---\n- 1\n---\n{}", node("a"), node("b"), node("a"));
    check(
        "fleet.yaml",
        &text,
        expect![[r#"
        fleet.yaml: document 3 (ResourceClaim default/a): spec.devices.requests[0].exactly.count: must be greater than zero, not -1
        fleet.yaml: document 4: is not YAML: unclosed bracket '[' at line 16, column 6
        fleet.yaml: document 5, item 1: is not an object
        fleet.yaml: document 6 (Node a): is already in fleet.yaml: document 1
    "#]],
    );
}

#[test]
fn the_same_object_twice() {
    let rule = |version: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/{version}, kind: DeviceTaintRule, metadata: {{name: r}}, spec: {{taint: {{key: k, effect: None}}}}}}\n"
        )
    };
    check(
        "f.yaml",
        &format!("{}---\n{}", rule("v1"), rule("v1beta2")),
        expect![[r#"
        f.yaml: document 2 (DeviceTaintRule r): is already in f.yaml: document 1
    "#]],
    );
    let pod = |meta: &str| format!("{{apiVersion: v1, kind: Pod, metadata: {{{meta}}}}}\n");
    check(
        "f.yaml",
        &format!("{}---\n{}", pod("name: p"), pod("name: p, namespace: other")),
        expect![[r#"
        pods: default/p, other/p
    "#]],
    );
    check(
        "f.yaml",
        &format!("{}---\n{}", pod("name: p"), pod("name: p, namespace: default")),
        expect![[r#"
        f.yaml: document 2 (Pod default/p): is already in f.yaml: document 1
    "#]],
    );
}

#[test]
fn broken_texts() {
    check(
        "f.json",
        "{",
        expect![[r#"
        f.json: document 1: is not JSON: EOF while parsing an object at line 1 column 1
    "#]],
    );
    check(
        "f.json",
        r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}} x"#,
        expect![[r#"
        f.json: document 2: is not JSON: expected value at line 1 column 65
    "#]],
    );
    check(
        "f.yaml",
        "a: 1\na: 2\n",
        expect![[r#"
            f.yaml: document 1: is not YAML: duplicate mapping key: a not allowed here at line 2, column 1
        "#]],
    );
    check(
        "f.yaml",
        "a:\n\t- b\n",
        expect![[r#"
        f.yaml: document 1: is not YAML: tabs disallowed within this context (block indentation) at line 2, column 2
    "#]],
    );
    check(
        "f.yaml",
        &"[".repeat(300),
        expect![[r#"
        f.yaml: document 1: is not YAML: recursion limit exceeded at line 1, column 256
    "#]],
    );
    check(
        "f.json",
        &format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{}1{}"#,
            r#"{"x":"#.repeat(300),
            "}".repeat(301)
        ),
        expect![[r#"
            f.json: document 1 (Pod): metadata.name: is required
        "#]],
    );
    check("f.yaml", "", expect![]);
    check(
        "-",
        "\u{feff}{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"a\"}}",
        expect![[r#"
        nodes: a
    "#]],
    );
}

#[test]
fn words_that_yaml_takes_for_truth_values() {
    // As kubectl reads them: quote a name that is `no` or `y`.
    check(
        "f.yaml",
        &node("y"),
        expect![[r#"
        f.yaml: document 1: metadata.name: invalid type: boolean `true`, expected a string
    "#]],
    );
    check(
        "f.yaml",
        &node("'y'"),
        expect![[r#"
        nodes: y
    "#]],
    );
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let error = load_text("bomb.yaml", &bomb).unwrap_err().to_string();
    assert!(
        error.starts_with("bomb.yaml: document 1: is not YAML: YAML document too large or too complex"),
        "{error}"
    );
}

#[test]
fn aliases_in_moderation_are_fine() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a, labels: &l {zone: z}}\n- apiVersion: v1\n  kind: Node\n  metadata: {name: b, labels: *l}\n";
    let objects = load_text("f.yaml", text).unwrap();
    assert_eq!(objects.nodes[0].labels, objects.nodes[1].labels);
}

#[test]
fn at_most_a_hundred_errors() {
    let text = "{apiVersion: v1, kind: Node}\n---\n".repeat(150);
    assert_eq!(load_text("f.yaml", &text).unwrap_err().0.len(), 100);
}

#[test]
fn directories() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("b/deep")).unwrap();
    fs::write(at("c.yml"), node("c")).unwrap();
    fs::write(at("b/deep/x.json"), r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"x"}}"#).unwrap();
    fs::write(at("a.YAML"), node("a")).unwrap();
    fs::write(at("notes.txt"), "not: [ours").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.path(), at("b/loop")).unwrap();
    expect![[r#"
        nodes: a, x, c
    "#]]
    .assert_eq(&summary(&load([dir.path()]).unwrap()));
    // A file that is named is read, whatever its name.
    fs::write(at("fleet"), node("z")).unwrap();
    expect![[r#"
        nodes: z, c
    "#]]
    .assert_eq(&summary(&load([at("fleet"), at("c.yml")]).unwrap()));
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let errors = load([dir.path().join("absent.yaml")]).unwrap_err().to_string();
    assert!(errors.contains("absent.yaml: open: "), "{errors}");
    let large = dir.path().join("large.yaml");
    fs::File::create(&large).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    let errors = load([&large]).unwrap_err().to_string();
    assert!(errors.ends_with("large.yaml: is larger than 64 MiB"), "{errors}");
    let binary = dir.path().join("binary.json");
    fs::write(&binary, [0xff, 0xfe]).unwrap();
    let errors = load([&binary]).unwrap_err().to_string();
    assert!(errors.contains("binary.json: read: "), "{errors}");
}
