//! People handle an incident, from the first look at it to the repair.

use serde_json::json;

use crate::{
    acts::{DIALOG, NO_DIALOG, SUBMIT, confirm, go, named, signed_in},
    browser,
    chromium::Page,
    server::{Cluster, ask},
};

/// Waits until the only incident is at a stage.
fn until_stage(page: &Page<'_>, stage: &str) {
    page.until(&format!("document.querySelector('.card .pill')?.textContent === {stage:?}"));
}

#[test]
fn incidents_are_acknowledged_noted_abandoned_and_repaired() {
    let Some(browser) = browser("incidents_are_acknowledged_noted_abandoned_and_repaired") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "gpus"},
        "spec": {
            "mode": "Enforce", "deviceSelector": {"driver": "gpu.example.com"},
            "rules": [{"name": "fatal-xid", "when": "signal.key == \"gpu.example.com/xid\"", "stage": "Drained"}],
        },
    });
    ask(&page, "post", "/apis/lazaret.dev/v1alpha1/devicehealthpolicies", &policy);
    cluster.device(&["report", "node-1/gpu-1", "gpu.example.com/xid=79", "--reason", "fell off the bus"]);
    go(&page, "incidents");
    // No pod uses the device, and no step repairs it: it waits for a person.
    until_stage(&page, "Repairing");
    page.until("lazaret.fleet.devices.get('gpu.example.com/node-1/gpu-1').state === 'repairing'");

    confirm(&page, "Acknowledge", "on my way");
    page.until("/Acknowledged by/.test(document.querySelector('.card').innerText)");
    page.until(&format!("!{}", named("Acknowledge")));

    page.click(&named("Note…"), DIALOG);
    page.eval("void document.querySelector('dialog[open] textarea').focus()");
    page.write("the vendor sends another board");
    page.until("/lazaret.dev.note='the vendor sends/.test(document.querySelector('dialog[open]').innerText)");
    page.click(SUBMIT, NO_DIALOG);
    page.until("document.querySelector('.quote')?.textContent === 'the vendor sends another board'");

    confirm(&page, "Abandon…", "no spare");
    until_stage(&page, "Abandoned");
    confirm(&page, "Repaired…", "replaced");
    until_stage(&page, "Probation");
    page.until("lazaret.fleet.devices.get('gpu.example.com/node-1/gpu-1').state === 'probation'");
    // Acts of people stand between the stages.
    let timeline = page.eval("[...document.querySelectorAll('.card .timeline li')].map((one) => one.firstChild.firstChild.textContent).filter((stage, at, all) => stage !== all[at - 1])");
    assert_eq!(timeline, json!(["Draining", "Repairing", "Abandoned", "Probation"]));
    assert!(cluster.device(&["incidents"]).contains("Probation"));
    assert_eq!(page.problems(), Vec::<String>::new());
}
