//! Recordings, played: what the page shows at their end is what the cores say of the same objects.

use std::{collections::BTreeMap, fs, path::Path};

use lazaret_device::view::{Cluster as View, Filter, Top, rows};
use serde_json::{Value, json};

use crate::{browser, chromium::Page, server::Cluster};

/// How many devices are in which condition at the end of a recording.
fn at_the_end(recording: &Value) -> BTreeMap<String, usize> {
    let mut objects: BTreeMap<(String, String), Value> = BTreeMap::new();
    let id = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        (text(&object["kind"]), format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])))
    };
    for object in recording["objects"].as_array().unwrap() {
        objects.insert(id(object), object.clone());
    }
    for event in recording["events"].as_array().unwrap() {
        let object = &event["object"];
        if event["type"] == "DELETED" {
            objects.remove(&id(object));
        } else {
            objects.insert(id(object), object.clone());
        }
    }
    let mut cluster = View::default();
    objects
        .values()
        .filter(|one| one["kind"] != "DeviceIncident")
        .for_each(|one| cluster.set(&one.to_string()));
    assert!(cluster.unreadable.is_empty(), "{:?}", cluster.unreadable);
    let of_kind = |kind: &'static str| objects.values().filter(move |one| one["kind"] == kind);
    let top = Top::new(
        &rows(&mut cluster, &Filter::default()),
        of_kind("DeviceTaintRule"),
        of_kind("DeviceIncident"),
    );
    top.counts.into_iter().map(|(condition, number)| (condition.word().to_owned(), number)).collect()
}

/// Chooses a file as a person does.
fn choose(page: &Page<'_>, file: &Path) {
    page.eval("void (location.hash = '#/fleet')");
    page.until("lazaret.page()?.id === 'fleet'");
    page.eval("void (location.hash = '#/replay')");
    page.until("document.querySelector('input[type=file]')");
    let document = page.call("DOM.getDocument", &json!({}));
    let input = page.call(
        "DOM.querySelector",
        &json!({"nodeId": document["root"]["nodeId"], "selector": "input[type=file]"}),
    );
    page.call("DOM.setFileInputFiles", &json!({"nodeId": input["nodeId"], "files": [file]}));
}

/// Chooses a file, moves to its end, and waits until the page shows what is expected there.
fn play(page: &Page<'_>, file: &Path) {
    let recording: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let expected = at_the_end(&recording);
    assert!(expected.values().sum::<usize>() > 0, "{}: no device", file.display());
    choose(page, file);
    page.until("document.querySelector('.scrub input[type=range]')");
    page.eval("(() => { const range = document.querySelector('.scrub input[type=range]'); range.value = range.max; range.dispatchEvent(new Event('input')); })()");
    let shown = "Object.fromEntries([...document.querySelectorAll('.legend button')].map((one) => [one.lastChild.textContent.toLowerCase(), Number(one.querySelector('b').textContent.replace(/,/g, ''))]).filter(([, number]) => number))";
    let words: BTreeMap<&str, &usize> =
        expected.iter().map(|(word, number)| (word.as_str(), number)).collect();
    page.until(&format!(
        "(() => {{ const sorted = (one) => JSON.stringify(Object.entries(one).sort()); return sorted({shown}) === sorted({}); }})()",
        json!(words)
    ));
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn recordings_of_a_cluster_and_of_the_simulator_are_played() {
    let Some(browser) = browser("recordings_of_a_cluster_and_of_the_simulator_are_played") else { return };
    let cluster = Cluster::start(2);
    let page = browser.page(1280, 800);
    page.open(&cluster.address);
    page.until("lazaret.fleet.devices.size === 16");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").canonicalize().unwrap();
    play(&page, &examples.join("incident.json"));
    play(&page, &examples.join("simulated.json"));

    cluster.device(&["fail", "node-1/gpu-3", "--effect", "NoSchedule"]);
    cluster.device(&["cordon", "node-2/gpu-5"]);
    let file = cluster.folder.path().join("recorded.json");
    let path = file.to_str().unwrap();
    cluster.device(&["record", "-o", path, "--for", "1s"]);
    play(&page, &file);

    // A file that is no recording is refused with an error.
    let other = cluster.folder.path().join("other.json");
    fs::write(&other, "[]").unwrap();
    choose(&page, &other);
    page.until("/no DeviceRecording/.test(document.querySelector('main').innerText)");
}
