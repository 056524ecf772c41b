//! Every page in every look: something is there, nothing is wider than the window, every control has a name, every text can be read, and axe finds
//! nothing.

use std::{env, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    browser,
    chromium::Page,
    server::{Cluster, ask},
    tools,
};

/// Name, width, height, pixels a pixel, colour scheme. A terminal of 80 columns is about as wide as the third.
const LOOKS: [(&str, u32, u32, u32, &str); 4] = [
    ("light", 1280, 800, 1, "light"),
    ("dark", 1280, 800, 1, "dark"),
    ("narrow", 640, 800, 1, "light"),
    ("phone", 360, 740, 2, "dark"),
];

/// Roles that people act on.
const CONTROLS: [&str; 9] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "slider",
    "spinbutton",
    "progressbar",
    "application",
];

/// Texts whose contrast with what is behind them is below AA: 4.5, and 3 where they are large.
const CONTRAST: &str = r#"(() => {
  const parse = (text) => { const [r, g, b, a = 1] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number); return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a]; };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const light = (colour) => { const [r, g, b] = colour.map((one) => { const part = one / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1]);
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility() || element.closest(":disabled, .sr, .skip, noscript, script, style, option")) continue;
    const style = getComputedStyle(element);
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const back = behind(element);
    const [r, g, b, a] = parse(style.color);
    const [low, high] = [light(over([r, g, b, a * opacity], back)), light(back)].sort((one, other) => one - other);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (large ? 3 : 4.5) - 0.01) found.push(`${ratio.toFixed(2)}: ${node.textContent.trim().slice(0, 40)} (${element.localName}.${element.className})`);
  }
  return found;
})()"#;

/// Controls without a name in the accessibility tree.
fn nameless(page: &Page<'_>) -> Vec<String> {
    let tree = page.call("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let is_control = |node: &&Value| {
        node["ignored"] != true && CONTROLS.contains(&node["role"]["value"].as_str().unwrap_or_default())
    };
    let is_nameless = |node: &&Value| node["name"]["value"].as_str().unwrap_or_default().trim().is_empty();
    nodes.iter().filter(is_control).filter(is_nameless).map(ToString::to_string).collect()
}

/// Which of axe's rules a page breaks, and where. `script` is put into a page that does not have it yet.
fn broken_rules(page: &Page<'_>, script: &str) -> Value {
    if page.eval("typeof axe") == "undefined" {
        page.eval(script);
    }
    let rules = "axe.run(document, { resultTypes: ['violations'] }).then((found) => \
                 found.violations.map(({ id, help, nodes }) => [id, help, nodes.map((one) => [one.html, one.failureSummary])]))";
    page.eval(rules)
}

/// A page that is open, settled and fit to be seen.
fn check(page: &Page<'_>, axe: &str, look: &str, path: &str) {
    page.until("document.querySelector('main').innerText.trim().length > 0");
    let wide = page.eval("document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_i64().unwrap() <= 0, "{look} {path} is {wide} px wider than the window");
    let doubled = page.eval(
        "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); return ids.filter((id, at) => ids.indexOf(id) !== at); })()",
    );
    assert_eq!(doubled, json!([]), "{look} {path}: ids that are there twice");
    assert_eq!(nameless(page), Vec::<String>::new(), "{look} {path}: controls without a name");
    assert_eq!(page.eval(CONTRAST), json!([]), "{look} {path}: texts that cannot be read");
    let broken = broken_rules(page, axe);
    assert_eq!(broken, json!([]), "{look} {path}: rules of axe: {broken:#}");
    assert_eq!(page.problems(), Vec::<String>::new(), "{look} {path}");
    keep(page, look, path);
}

/// Leaves a picture of the page, if pictures are asked for.
pub(crate) fn keep(page: &Page<'_>, look: &str, path: &str) {
    if let Some(folder) = env::var_os("LAZARET_PICTURES") {
        let name: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let bytes = STANDARD.decode(page.picture()).unwrap();
        fs::write(Path::new(&folder).join(format!("{look}-{name}.png")), bytes).unwrap();
    }
}

/// Something on every page: pods, a failing device, a drain, an incident, a guard.
pub(crate) fn furnish(cluster: &Cluster, page: &Page<'_>) {
    train(page, 6);
    let policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "gpus"},
        "spec": {
            "mode": "Enforce", "deviceSelector": {"driver": "gpu.example.com"},
            "rules": [{"name": "fatal-xid", "when": "signal.key == \"gpu.example.com/xid\"", "stage": "Drained", "taint": {"value": "xid"}}],
        },
    });
    ask(page, "post", "/apis/lazaret.dev/v1alpha1/devicehealthpolicies", &policy);
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"breaker": {"maxOutOfService": "50%"}, "confirmAbove": {"pods": 50}},
    });
    ask(page, "post", "/apis/lazaret.dev/v1alpha1/disruptionguards", &guard);
    cluster.device(&["fail", "node-3/gpu-0", "--effect", "NoSchedule", "--reason", "ecc"]);
    cluster.device(&["report", "node-4/gpu-1", "gpu.example.com/xid=79", "--reason", "fell off the bus"]);
    cluster.device(&["drain", "node-1/gpu-0", "--reason", "fan", "--yes"]);
    page.until("lazaret.fleet.incidents.size === 1 && lazaret.fleet.rules.size > 0");
}

/// Pods that need a device each, and are made again when one has to leave.
pub(crate) fn train(page: &Page<'_>, pods: u32) {
    let text = include_str!("../../../../../examples/training.yaml");
    let mut documents = text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap());
    let (template, mut deployment) = (documents.next().unwrap(), documents.next().unwrap());
    deployment["spec"]["replicas"] = json!(pods);
    ask(page, "post", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", &template);
    ask(page, "post", "/apis/apps/v1/namespaces/default/deployments", &deployment);
    page.until(&format!("lazaret.fleet.counts()[1] >= {pods}"));
}

#[test]
fn every_page_in_every_look() {
    let Some(browser) = browser("every_page_in_every_look") else { return };
    let axe = fs::read_to_string(tools::axe()).unwrap();
    let cluster = Cluster::start(4);
    let page = browser.page(1280, 800);
    page.open(&cluster.base());
    page.until("document.querySelector('#token')");
    check(&page, &axe, "light", "sign-in");
    page.open("about:blank");
    page.open(&cluster.address);
    page.until("lazaret.fleet.devices.size === 32");
    for path in ["drains", "incidents", "why", "whatif"] {
        page.eval(&format!("void (location.hash = '#/{path}')"));
        page.until(&format!("lazaret.page().id === '{path}'"));
        check(&page, &axe, "light", &format!("empty-{path}"));
    }
    furnish(&cluster, &page);
    let pod = page.eval("[...lazaret.fleet.claims.values()].find((one) => one.status?.reservedFor?.length).status.reservedFor[0].name");
    let why = format!("why/default/{}", pod.as_str().unwrap());
    let device = "gpu.example.com/node-1/gpu-0";
    let paths = [
        "fleet".to_owned(),
        format!("fleet/{device}"),
        "fleet/gpu.example.com/node-3/gpu-0".to_owned(),
        "whatif/gpu.example.com/node-1/gpu-1".to_owned(),
        "drains".to_owned(),
        "incidents".to_owned(),
        "replay".to_owned(),
        why,
        "why/default/nothing".to_owned(),
        "cluster".to_owned(),
    ];
    for (look, width, height, scale, scheme) in LOOKS {
        page.size(width, height, scale);
        page.prefer("prefers-color-scheme", scheme);
        for path in &paths {
            page.eval(&format!("void (location.hash = '#/{path}')"));
            let id = path.split('/').next().unwrap();
            page.until(&format!("lazaret.page().id === '{id}'"));
            // The data from the server is there, too.
            page.until("![...document.querySelectorAll('main .note, main .empty, .panel .note')].some((one) => /^(…|Reading pods…)$/.test(one.textContent))");
            if id == "whatif" {
                page.until("/would be evicted/.test(document.querySelector('main').innerText)");
            }
            check(&page, &axe, look, path);
        }
    }
    let origin = cluster.base().trim_end_matches("/ui/").to_owned();
    let strangers: Vec<String> = page
        .origins()
        .into_iter()
        .filter(|one| *one != origin && !one.starts_with("about:") && !one.starts_with("data:"))
        .collect();
    assert_eq!(strangers, Vec::<String>::new(), "asked of others");
    page.close();
}
