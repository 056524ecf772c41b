//! Actions of users: by mouse, by keyboard alone, with few rights, and while the server is away.

use serde_json::{Value, json};

use crate::{
    browser,
    chromium::Page,
    looks::train,
    server::{Cluster, ask},
};

/// A button or a link by its text.
pub(crate) fn named(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('button, a')].find((one) => one.textContent.trim() === {text:?} && one.checkVisibility())"
    )
}

/// The state that the page shows a device in.
pub(crate) fn state_is(device: &str, state: &str) -> String {
    format!("lazaret.fleet.devices.get({device:?})?.state === {state:?}")
}

pub(crate) fn go(page: &Page<'_>, path: &str) {
    page.eval(&format!("void (location.hash = '#/{path}')"));
    page.until(&format!("lazaret.page()?.id === {:?}", path.split('/').next().unwrap()));
}

pub(crate) const DIALOG: &str = "document.querySelector('dialog[open]')";
pub(crate) const NO_DIALOG: &str = "!document.querySelector('dialog[open]')";
pub(crate) const SUBMIT: &str = "document.querySelector('dialog[open] button[type=submit]')";

/// Opens a dialog, writes a reason and confirms.
pub(crate) fn confirm(page: &Page<'_>, button: &str, reason: &str) {
    page.click(&named(button), DIALOG);
    if !reason.is_empty() {
        page.eval("void document.querySelector('dialog[open] input:not([inputmode])').focus()");
        page.write(reason);
        page.until("document.querySelector('dialog[open]').innerText.includes('kubectl')");
    }
    page.click(SUBMIT, NO_DIALOG);
}

/// A page of an administrator with all devices.
pub(crate) fn signed_in<'b>(
    browser: &'b crate::chromium::Browser,
    cluster: &Cluster,
    devices: usize,
) -> Page<'b> {
    let page = browser.page(1280, 800);
    page.open(&cluster.address);
    page.until(&format!("lazaret.fleet.devices.size === {devices}"));
    page
}

#[test]
fn devices_are_taken_out_and_brought_back_by_mouse() {
    let Some(browser) = browser("devices_are_taken_out_and_brought_back_by_mouse") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    assert!(
        !page.eval("location.href").as_str().unwrap().contains("token"),
        "the token does not stay in the address"
    );

    // A reason from outside is only ever text.
    let device = "gpu.example.com/node-2/gpu-1";
    let markup = "<img src=x onerror=alert(1)>";
    go(&page, &format!("fleet/{device}"));
    confirm(&page, "Cordon", markup);
    page.until(&state_is(device, "noschedule"));
    assert!(cluster.device(&["list", "node-2/gpu-1"]).contains("lazaret.dev/drain:NoSchedule"));
    page.until(&format!("document.querySelector('.panel').innerText.includes({markup:?})"));
    assert_eq!(page.eval("document.querySelectorAll('.panel img').length"), 0);
    confirm(&page, "Uncordon", "");
    page.until(&state_is(device, "free"));

    // A simulated device fails and recovers.
    confirm(&page, "Fail…", "ecc");
    page.until(&format!(
        "lazaret.fleet.devices.get({device:?})?.origin === 'driver' && {}",
        state_is(device, "noschedule")
    ));
    assert!(cluster.device(&["list", "node-2/gpu-1"]).contains("unhealthy=ecc:NoExecute"));
    confirm(&page, "Recover…", "");
    page.until(&state_is(device, "free"));
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn patches_classes_and_expressions_are_what_the_cores_say() {
    let Some(browser) = browser("patches_classes_and_expressions_are_what_the_cores_say") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    let patch = |name: &str, filter: Value, effect: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": name},
            "spec": {"devices": {"filter": filter, "taints": [{"key": "example.com/batch", "effect": effect}]}},
        })
    };
    let patches = "/apis/resource.k8s.io/v1alpha3/resourceslicepatches";
    let one = json!({"driver": "gpu.example.com", "pool": "node-2", "device": "gpu-5"});
    ask(&page, "post", patches, &patch("one", one, "NoSchedule"));
    let expression = "device.attributes[\"gpu.example.com\"].index == 3";
    let some = json!({"selectors": [{"cel": {"expression": expression}}]});
    ask(&page, "post", patches, &patch("some", some, "None"));
    page.until(&state_is("gpu.example.com/node-2/gpu-5", "noschedule"));
    page.until(&state_is("gpu.example.com/node-1/gpu-3", "suspect"));
    page.until(&state_is("gpu.example.com/node-2/gpu-3", "suspect"));
    let top: Value = serde_json::from_str(&cluster.device(&["top", "-o", "json"])).unwrap();
    let said = ["free", "in use", "suspect", "no schedule"].map(|word| top["conditions"][word].as_u64());
    assert_eq!(said, [Some(13), Some(0), Some(2), Some(1)], "{top}");
    assert_eq!(page.eval("lazaret.fleet.counts().slice(0, 4)"), json!([13, 0, 2, 1]));

    page.key("/");
    page.until("document.activeElement?.dataset.filter !== undefined");
    page.write(expression);
    page.until("document.querySelector('.total strong').textContent === '2'");
    page.write(" (");
    page.until("/cannot be used/.test(document.querySelector('.split').innerText)");
    page.eval("(() => { const input = document.querySelector('[data-filter]'); input.value = ''; input.dispatchEvent(new Event('input')); const group = document.querySelector('.tools select'); group.value = 'class'; group.dispatchEvent(new Event('change')); })()");
    page.until(
        "lazaret.page().map.groups.find((one) => one.name === 'gpu.example.com')?.devices.length === 16",
    );
    assert_eq!(page.problems(), Vec::<String>::new());
}

/// A change that only moves numbers is drawn later; one that brings devices meanwhile is not forgotten.
#[test]
fn devices_that_come_soon_after_another_change_are_shown() {
    let Some(browser) = browser("devices_that_come_soon_after_another_change_are_shown") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    page.until("document.querySelector('.total strong').textContent === '16'");
    page.eval("(async () => { const { fleet } = lazaret; fleet.touch(); await Promise.resolve(); await Promise.resolve(); fleet.set('slices', { metadata: { name: 'late' }, spec: { driver: 'late.example.com', pool: { name: 'late', generation: 1 }, devices: [{ name: 'gpu-0' }] } }); })()");
    page.until("document.querySelector('.total strong').textContent === '17'");
    page.until("lazaret.page().map.cells.length === 17");
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn clicks_and_a_rectangle_select_and_a_plan_is_made_of_it() {
    let Some(browser) = browser("clicks_and_a_rectangle_select_and_a_plan_is_made_of_it") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    page.until("lazaret.page().map.cells.length === 16");
    // One with Ctrl, then all up to another with Shift.
    let middle = |index: usize| {
        let place = page.eval(&format!("(() => {{ const {{ map }} = lazaret.page(); const box = map.element.getBoundingClientRect(); const {{ x, y }} = map.cells[{index}]; return [box.left + x + map.size / 2, box.top + y + map.size / 2].map(Math.round); }})()"));
        let at = |index: usize| u32::try_from(place[index].as_u64().unwrap()).unwrap();
        (at(0), at(1))
    };
    page.click_with(middle(1), 2);
    page.until("/^1 device selected/.test(document.querySelector('.selection').innerText)");
    page.click_with(middle(5), 8);
    page.until("/^5 devices selected/.test(document.querySelector('.selection').innerText)");
    page.click(&named("Clear"), "document.querySelector('.selection').hidden");
    // Around the first three cells of the first node.
    let place = page.eval("(() => { const { map } = lazaret.page(); const box = map.element.getBoundingClientRect(); const last = map.cells[2]; return [box.left + map.cells[0].x - 6, box.top + map.cells[0].y - 6, box.left + last.x + map.size / 2, box.top + last.y + map.size / 2].map(Math.round); })()");
    let at = |index: usize| u32::try_from(place[index].as_u64().unwrap()).unwrap();
    page.drag((at(0), at(1)), (at(2), at(3)));
    page.until("/^3 devices selected/.test(document.querySelector('.selection').innerText)");
    page.click(&named("What if…"), "location.hash.startsWith('#/whatif/')");
    page.until("lazaret.page().plan?.()?.devices.length === 3");
    assert_eq!(page.problems(), Vec::<String>::new());
}

/// The key of a device that a pod of the training uses.
pub(crate) fn used(page: &Page<'_>) -> String {
    let key = page.eval("[...lazaret.fleet.devices.values()].find((one) => one.state === 'inuse').key");
    key.as_str().unwrap().to_owned()
}

#[test]
fn a_drain_is_planned_watched_and_undone() {
    let Some(browser) = browser("a_drain_is_planned_watched_and_undone") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    train(&page, 3);
    let device = used(&page);
    go(&page, &format!("whatif/{device}"));
    page.until("/1 of 1 pod would be evicted/.test(document.querySelector('main').innerText)");
    let plan = cluster.device(&["plan", &device, "lazaret.dev/drain:NoExecute", "-o", "json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let (ours, theirs) =
        (page.eval("lazaret.page().plan().pods.map((one) => one.name)"), &plan["pods"][0]["name"]);
    assert_eq!(&ours[0], theirs);
    // A free device is on both nodes.
    page.until("/^node-[12]$/m.test(document.querySelector('td.place').innerText)");
    confirm(&page, "Apply…", "fan");
    page.until("location.hash === '#/drains'");
    page.until("/Drained/.test(document.querySelector('.card .pill')?.textContent)");
    // The pod that its Deployment made instead, and the device that it has.
    page.until("document.querySelectorAll('.moves li').length === 1 && / on node-[12]\\/gpu-[0-7]/.test(document.querySelector('.moves').innerText)");
    let moved = page.eval("document.querySelector('.moves a').getAttribute('href')");
    let pod = moved.as_str().unwrap().trim_start_matches("#/why/default/").to_owned();
    assert!(cluster.device(&["list"]).contains(&pod), "{pod}");
    confirm(&page, "Undo…", "");
    page.until(&state_is(&device, "free"));
    page.until("/No device is being drained/.test(document.querySelector('main').innerText)");
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn evictions_are_paused_and_held_rules_approved() {
    let Some(browser) = browser("evictions_are_paused_and_held_rules_approved") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    train(&page, 3);
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"confirmAbove": {"pods": 0}},
    });
    ask(&page, "post", "/apis/lazaret.dev/v1alpha1/disruptionguards", &guard);
    let device = used(&page);
    go(&page, &format!("fleet/{device}"));
    confirm(&page, "Drain…", "fan");
    go(&page, "drains");
    page.until("/Waits for approval/.test(document.querySelector('.card')?.innerText)");
    // A rule that is held taints nothing.
    page.until(&state_is(&device, "inuse"));
    confirm(&page, "Pause all…", "deploying");
    page.until("/paused: deploying/.test(document.querySelector('main').innerText)");
    page.click(&named("Approve…"), DIALOG);
    page.until("/taint 1 device and evict 1 pod in 1 namespace/.test(document.querySelector('dialog[open]').innerText)");
    page.click(SUBMIT, NO_DIALOG);
    page.until("/Paused/.test(document.querySelector('.card .item')?.innerText)");
    page.until(&state_is(&device, "draining"));
    confirm(&page, "Resume…", "");
    page.until("/Drained/.test(document.querySelector('.card .pill')?.textContent)");
    assert_eq!(page.problems(), Vec::<String>::new());
}

/// Moves the focus until it is on a control with this text.
fn tab_to(page: &Page<'_>, text: &str) {
    for _ in 0..200 {
        if page.eval("document.activeElement?.textContent.trim()") == text {
            return;
        }
        page.key("Tab");
    }
    panic!("no way to {text:?} by Tab");
}

#[test]
fn everything_is_done_by_keyboard_alone() {
    let Some(browser) = browser("everything_is_done_by_keyboard_alone") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    page.key("/");
    page.until("document.activeElement?.dataset.filter !== undefined");
    page.write("node=node-2 gpu-1");
    page.until("document.querySelector('.total strong').textContent === '1'");
    page.key("Escape");
    for _ in 0..40 {
        if page.eval("document.activeElement?.className") == "map" {
            break;
        }
        page.key("Tab");
    }
    page.key("ArrowRight");
    page.key("Enter");
    let device = "gpu.example.com/node-2/gpu-1";
    page.until(&format!("location.hash === '#/fleet/{device}'"));
    page.until(&format!("({}) && !({}).disabled", named("Cordon"), named("Cordon")));
    tab_to(&page, "Cordon");
    page.key("Enter");
    page.until("document.querySelector('dialog[open]')?.contains(document.activeElement)");
    page.write("by hand");
    page.key("Enter");
    page.until(&state_is(device, "noschedule"));
    page.until(NO_DIALOG);
    page.key_until("Escape", "location.hash === '#/fleet'");
    for (key, place) in [
        ("d", "drains"),
        ("i", "incidents"),
        ("w", "whatif"),
        ("r", "replay"),
        ("c", "cluster"),
        ("f", "fleet"),
    ] {
        // A field that a page focuses keeps its letters: Escape leaves it.
        page.key("Escape");
        page.key("g");
        page.key(key);
        page.until(&format!("location.hash === '#/{place}'"));
    }
    page.key("?");
    page.until("/Keyboard/.test(document.querySelector('dialog[open]')?.innerText)");
    assert_eq!(page.problems(), Vec::<String>::new());
}

#[test]
fn who_may_not_act_is_told_which_permission_is_missing() {
    let Some(browser) = browser("who_may_not_act_is_told_which_permission_is_missing") else { return };
    let cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    ask(
        &page,
        "post",
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}}),
    );
    ask(
        &page,
        "post",
        &format!("{rbac}/clusterroles"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "sees-devices"},
            "rules": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices", "devicetaintrules"], "verbs": ["get", "list", "watch"]}],
        }),
    );
    ask(
        &page,
        "post",
        &format!("{rbac}/clusterrolebindings"),
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sees-devices"},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
        }),
    );
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = ask(&page, "post", "/api/v1/namespaces/default/serviceaccounts/viewer/token", &request);
    let viewer = browser.page(1280, 800);
    viewer.open(&cluster.base());
    viewer.until("document.activeElement?.id === 'token'");
    viewer.write(answer["status"]["token"].as_str().unwrap());
    viewer.click(&named("Sign in"), "globalThis.lazaret.fleet.devices.size === 16");
    viewer.until("/you may not list all claims/.test(document.querySelector('.total').innerText)");
    go(&viewer, "fleet/gpu.example.com/node-1/gpu-0");
    viewer.until(&format!(
        "({0})?.disabled && ({0}).title.includes('create devicetaintrules.resource.k8s.io')",
        named("Cordon")
    ));
    viewer.until("document.getElementById('banner').hidden");
}

#[test]
fn a_lost_server_is_told_and_nothing_is_lost_or_doubled() {
    let Some(browser) = browser("a_lost_server_is_told_and_nothing_is_lost_or_doubled") else { return };
    let mut cluster = Cluster::start(2);
    let page = signed_in(&browser, &cluster, 16);
    cluster.kill();
    page.until("!document.getElementById('banner').hidden");
    cluster.again(2);
    // Sessions end with the server: the page asks to sign in again and does not pretend.
    page.until("/Your session has ended/.test(document.querySelector('main').innerText)");
    page.until("document.activeElement?.id === 'token'");
    page.write("no.such.token");
    let refused = "/not valid/.test(document.querySelector('[role=alert]')?.textContent)";
    page.click(
        &named("Sign in"),
        &format!("{refused} && document.getElementById('token').value === 'no.such.token'"),
    );
    let token = cluster.address.split("#token=").nth(1).unwrap();
    page.eval(&format!("void (document.getElementById('token').value = {token:?})"));
    page.eval("void (globalThis.isBefore = true)");
    let fresh = "!globalThis.isBefore && globalThis.lazaret?.fleet.devices.size === 16";
    page.click(
        &named("Sign in"),
        &format!("{fresh} && document.getElementById('banner').hidden && !document.getElementById('token')"),
    );
    cluster.device(&["fail", "node-2/gpu-1", "--effect", "NoSchedule"]);
    page.until(&state_is("gpu.example.com/node-2/gpu-1", "noschedule"));
    let changes = "lazaret.app.recorder.events.map(({ method, object: { metadata } }) => `${method} ${metadata.uid} ${metadata.resourceVersion}`)";
    page.until(&format!("{changes}.length > 0 && new Set({changes}).size === {changes}.length"));
    // A page of `kubectl device ui` keeps its session while the server behind it is away.
    let (_ui, address) = cluster.ui();
    let other = browser.page(1280, 800);
    other.open(&address);
    other.until("lazaret.fleet.devices.size === 16");
    cluster.kill();
    other.until("!document.getElementById('banner').hidden");
    cluster.again(2);
    other.until("document.getElementById('banner').hidden && lazaret.fleet.devices.size === 16");
    cluster.device(&["fail", "node-1/gpu-3", "--effect", "NoSchedule"]);
    other.until(&state_is("gpu.example.com/node-1/gpu-3", "noschedule"));
    assert_eq!(other.problems(), Vec::<String>::new());
}
