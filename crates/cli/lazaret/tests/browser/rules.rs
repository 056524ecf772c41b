//! A rule written as YAML beside the form, planned, corrected and applied.

use serde_json::json;

use crate::{
    acts::{DIALOG, SUBMIT, confirm, go, named, signed_in, state_is, used},
    browser,
    chromium::Page,
    looks::train,
    server::{Cluster, ask},
};

/// As people write them: with a comment, a flow collection and quotes.
const RULE: &str = r#"# the third device of each node
apiVersion: resource.k8s.io/v1alpha3
kind: DeviceTaintRule
metadata: {name: by-hand}
spec:
  deviceSelector:
    selectors:
    - cel:
        expression: 'device.attributes["gpu.example.com"].index == 2'
  taint:
    key: example.com/firmware  # not a drain
    effect: NoSchedule"#;

/// Replaces the whole text of the rule, as a person does who selects all of it.
fn write(page: &Page<'_>, text: &str) {
    page.eval(
        "(() => { const text = document.getElementById('rule-text'); text.focus(); text.select(); })()",
    );
    page.write(text);
}

#[test]
fn a_rule_is_written_as_yaml_planned_and_applied() {
    let Some(browser) = browser("a_rule_is_written_as_yaml_planned_and_applied") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    go(&page, "whatif");

    // An error is named with its line, and nothing can be applied.
    write(&page, &RULE.replace("== 2'", "== 2"));
    page.until("/^Line 9: .*quotes/.test(document.querySelector('.card .error').textContent)");
    page.until("/The rule cannot be read/.test(document.querySelector('main').innerText)");
    write(&page, &RULE.replace("    key:", "   key:"));
    page.until("/^Line 12: /.test(document.querySelector('.card .error').textContent)");
    write(&page, &RULE.replace("DeviceTaintRule", "Pod"));
    page.until("/no DeviceTaintRule/.test(document.querySelector('.card .error').textContent)");

    write(&page, RULE);
    page.until("lazaret.page().plan()?.devices.length === 2 && document.querySelector('.card .error').textContent === ''");
    page.until("[...document.querySelectorAll('.card input')].some((one) => one.value === 'device.attributes[\"gpu.example.com\"].index == 2')");
    page.until(
        "[...document.querySelectorAll('.card input')].some((one) => one.value === 'example.com/firmware')",
    );

    // The form changes the taint of the rule and leaves the rest of it alone.
    page.eval("(() => { const effect = document.querySelector('.card select'); effect.value = 'None'; effect.dispatchEvent(new Event('input')); })()");
    page.until("/name: by-hand[^]*effect: None/.test(document.getElementById('rule-text').value)");
    page.until("/example.com.firmware:None/.test(JSON.stringify(lazaret.page().plan()))");
    confirm(&page, "Apply…", "new firmware");
    page.until("location.hash === '#/drains'");
    for node in ["node-1", "node-2"] {
        page.until(&state_is(&format!("gpu.example.com/{node}/gpu-2"), "suspect"));
    }
    assert!(cluster.device(&["list", "node-2/gpu-2"]).contains("example.com/firmware:None"));
    assert_eq!(page.problems(), Vec::<String>::new());
}

/// Writes into the field for the number of pods.
fn write_number(page: &Page<'_>, number: &str) {
    page.eval("(() => { const field = document.querySelector('dialog[open] input[inputmode]'); field.focus(); field.select(); })()");
    page.write(number);
}

#[test]
fn a_plan_above_a_guards_limit_needs_its_number_of_pods() {
    let Some(browser) = browser("a_plan_above_a_guards_limit_needs_its_number_of_pods") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    train(&page, 1);
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"pods": 0}},
    });
    ask(&page, "post", "/apis/lazaret.dev/v1alpha1/disruptionguards", &guard);
    page.until("lazaret.fleet.guards.size === 1");
    go(&page, &format!("whatif/{}", used(&page)));
    page.until("/1 of 1 pod would be evicted/.test(document.querySelector('main').innerText)");
    page.click(&named("Apply…"), DIALOG);
    page.until("/wants approval above 0 pods/.test(document.querySelector('dialog[open]').innerText)");
    page.eval("void document.querySelector('dialog[open] input:not([inputmode])').focus()");
    page.write("fan");
    write_number(&page, "2");
    page.click(SUBMIT, "/Type 1 to go on/.test(document.querySelector('dialog[open]').innerText)");
    assert_eq!(page.eval("lazaret.fleet.rules.size"), 0);
    write_number(&page, "1");
    page.click(SUBMIT, "location.hash === '#/drains'");
    page.until("/Waits for approval/.test(document.querySelector('.card')?.innerText)");
    assert_eq!(page.problems(), Vec::<String>::new());
}
