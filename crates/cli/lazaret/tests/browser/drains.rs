//! A drain while it is at work: its pods by phase, its pace, what stops it, and what the cluster page says of the guards.

use serde_json::json;

use crate::{
    acts::{DIALOG, NO_DIALOG, SUBMIT, confirm, go, named, signed_in, state_is, used},
    browser,
    chromium::Page,
    looks::train,
    server::{Cluster, ask},
};

/// Waits until the drain has pods in these phases and no others.
fn until_phases(page: &Page<'_>, phases: &str) {
    page.until(&format!(
        "[...document.querySelectorAll('.card [data-phase]')].map((one) => one.dataset.phase + ' ' + one.textContent.split(' ')[0]).join() === {phases:?}"
    ));
}

/// Keeps every text that the drains were drawn with.
const REMEMBER: &str = "(() => { globalThis.seen = []; new MutationObserver(() => seen.push(document.querySelector('main').innerText)).observe(document.querySelector('main'), { childList: true, subtree: true }); })()";

#[test]
fn a_drain_shows_its_pods_by_phase_and_changes_its_pace() {
    let Some(browser) = browser("a_drain_shows_its_pods_by_phase_and_changes_its_pace") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    train(&page, 2);
    let device = used(&page);
    // Its containers take their time to stop: long enough for a page to be told.
    let pod = page.eval(&format!(
        "[...lazaret.fleet.devices.get({device:?}).claims].map((id) => lazaret.fleet.claims.get(id).status.reservedFor[0].name)[0]"
    ));
    let path = format!("/api/v1/namespaces/default/pods/{}", pod.as_str().unwrap());
    ask(
        &page,
        "patch",
        &path,
        &json!({"metadata": {"annotations": {"hollow.lazaret.dev/stop-after": "2s"}}}),
    );
    cluster.device(&["pause", "--reason", "deploying"]);
    go(&page, &format!("fleet/{device}"));
    confirm(&page, "Drain…", "fan");
    go(&page, "drains");
    until_phases(&page, "waiting 1");
    page.until("/DisruptionGuard pause is paused: deploying; kubectl device resume pause/.test(document.querySelector('.card .moves').innerText)");

    page.click(&named("Pace…"), DIALOG);
    page.eval("(() => { const input = document.querySelector('dialog[open] input'); input.focus(); input.select(); })()");
    page.write("7");
    page.until("/\"evictionsPerSecond\":7/.test(document.querySelector('dialog[open]').innerText)");
    page.click(SUBMIT, NO_DIALOG);
    page.until("/pace 7\\/s/.test(document.querySelector('.card .facts').innerText)");

    // Another user paused; this page sees it, and resumes.
    go(&page, "cluster");
    page.until("/paused: deploying/.test(document.querySelector('main').innerText)");
    go(&page, "drains");
    // A phase that does not last is remembered when it is drawn.
    page.eval(REMEMBER);
    confirm(&page, "Resume…", "");
    page.until("seen.some((text) => /1 ending[^]*asked to end/.test(text))");
    until_phases(&page, "replaced 1");
    page.click(&named("Undo…"), DIALOG);
    page.until("/1 pod already left/.test(document.querySelector('dialog[open]').innerText)");
    page.click(SUBMIT, NO_DIALOG);
    page.until(&state_is(&device, "free"));
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn the_cluster_page_follows_guards_and_their_breakers() {
    let Some(browser) = browser("the_cluster_page_follows_guards_and_their_breakers") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    go(&page, "cluster");
    page.until("/None. A DisruptionGuard/.test(document.querySelector('main').innerText)");
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"breaker": {"maxOutOfService": 1}, "confirmAbove": {"pods": 50}},
    });
    ask(&page, "post", "/apis/lazaret.dev/v1alpha1/disruptionguards", &guard);
    page.until("/Breaker closed[^]*at most 1 of devices out of service[^]*approval above 50 pods/.test(document.querySelector('main').innerText)");
    for name in ["node-1/gpu-3", "node-2/gpu-4"] {
        cluster.device(&["fail", name, "--effect", "NoSchedule"]);
    }
    page.until("/Breaker tripped/.test(document.querySelector('main').innerText) && /now 2/.test(document.querySelector('main').innerText)");
    assert!(cluster.device(&["guard", "list"]).contains("fleet"));
    // The number leads to the devices behind it, and a filter shows the same ones.
    page.click("document.querySelector('.card .facts [data-count=\"2\"]')", DIALOG);
    let listed = "[...document.querySelectorAll('dialog.listing li a')].map((one) => one.textContent).join()";
    page.until(&format!("{listed} === 'gpu.example.com/node-1/gpu-3,gpu.example.com/node-2/gpu-4'"));
    page.key("Escape");
    page.until(NO_DIALOG);
    go(&page, "fleet/?tainted");
    page.until("document.querySelector('.total strong').textContent === '2' && document.querySelector('[data-filter]').value === 'tainted'");
    go(&page, "cluster");
    page.until("/All [0-9]+ checks pass/.test(document.querySelector('main').innerText)");
    assert_eq!(page.problems(), Vec::<String>::new());
}
