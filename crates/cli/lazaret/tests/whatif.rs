//! The dashboard's module and the binary give the same plans: 200 random clusters, the same questions to both.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, process::Command};

use serde_json::{Value, json};
use wasmi::{Caller, Engine, Error, Linker, Memory, Module, Store};

const CLUSTERS: u64 = 200;
const NOW: &str = "2026-01-01T12:00:00Z";

/// The input and output of the module.
#[derive(Default)]
struct Streams {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
}

type WasmCaller<'a> = Caller<'a, Streams>;

fn memory(caller: &WasmCaller<'_>) -> Memory {
    caller.get_export("memory").and_then(wasmi::Extern::into_memory).unwrap()
}

fn number(caller: &WasmCaller<'_>, at: i32) -> usize {
    let mut bytes = [0; 4];
    memory(caller).read(caller, usize::try_from(at).unwrap(), &mut bytes).unwrap();
    usize::try_from(u32::from_le_bytes(bytes)).unwrap()
}

fn set_number(caller: &mut WasmCaller<'_>, at: i32, value: usize) {
    let bytes = u32::try_from(value).unwrap().to_le_bytes();
    memory(caller).write(caller, usize::try_from(at).unwrap(), &bytes).unwrap();
}

fn read(mut caller: WasmCaller<'_>, _file: i32, vectors: i32, count: i32, result: i32) -> i32 {
    let mut sum = 0;
    for at in 0..count {
        let (start, length) = (number(&caller, vectors + at * 8), number(&caller, vectors + at * 8 + 4));
        let streams = caller.data();
        let end = (streams.read + length).min(streams.input.len());
        let part = streams.input[streams.read..end].to_vec();
        memory(&caller).write(&mut caller, start, &part).unwrap();
        caller.data_mut().read = end;
        sum += part.len();
    }
    set_number(&mut caller, result, sum);
    0
}

fn write(mut caller: WasmCaller<'_>, file: i32, vectors: i32, count: i32, result: i32) -> i32 {
    let mut sum = 0;
    for at in 0..count {
        let (start, length) = (number(&caller, vectors + at * 8), number(&caller, vectors + at * 8 + 4));
        let mut part = vec![0; length];
        memory(&caller).read(&caller, start, &mut part).unwrap();
        if file == 1 {
            caller.data_mut().output.extend_from_slice(&part);
        }
        sum += length;
    }
    set_number(&mut caller, result, sum);
    0
}

/// An empty environment.
fn sizes(mut caller: WasmCaller<'_>, count: i32, bytes: i32) -> i32 {
    set_number(&mut caller, count, 0);
    set_number(&mut caller, bytes, 0);
    0
}

/// The module as the dashboard serves it, to be asked as a page asks it.
struct Page {
    engine: Engine,
    module: Module,
}

impl Page {
    fn load() -> Self {
        let asset = lazaret_dashboard::assets().iter().find(|asset| asset.name == "whatif.wasm").unwrap();
        let engine = Engine::default();
        let module = Module::new(&engine, &asset.bytes()[..]).unwrap();
        Self { engine, module }
    }

    fn ask(&self, question: &Value) -> Value {
        let input = question.to_string().into_bytes();
        let mut store = Store::new(&self.engine, Streams { input, ..Streams::default() });
        let mut linker: Linker<Streams> = Linker::new(&self.engine);
        let system = "wasi_snapshot_preview1";
        linker.func_wrap(system, "fd_read", read).unwrap();
        linker.func_wrap(system, "fd_write", write).unwrap();
        linker.func_wrap(system, "environ_sizes_get", sizes).unwrap();
        linker.func_wrap(system, "environ_get", |_: WasmCaller<'_>, _: i32, _: i32| 0_i32).unwrap();
        let exit = |_: WasmCaller<'_>, code: i32| -> Result<(), Error> { Err(Error::i32_exit(code)) };
        linker.func_wrap(system, "proc_exit", exit).unwrap();
        let instance = linker.instantiate_and_start(&mut store, &self.module).unwrap();
        let start = instance.get_typed_func::<(), ()>(&store, "_start").unwrap();
        match start.call(&mut store, ()) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.i32_exit_status(), Some(0), "{error}"),
        }
        serde_json::from_slice(&store.data().output).unwrap()
    }
}

/// Random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

fn uid(kind: u64, number: u64) -> String {
    format!("00000000-0000-4000-8{kind:03}-{number:012}")
}

fn slice(dice: &mut Dice, node: u64, devices: u64) -> Value {
    let list: Vec<Value> = (0..devices)
        .map(|at| {
            let mut device = json!({
                "name": format!("gpu-{at}"),
                "attributes": {"model": {"string": dice.pick(&["small", "large"])}},
            });
            if dice.below(4) == 0 {
                let effect = dice.pick(&["None", "NoSchedule", "NoExecute"]);
                device["taints"] = json!([{"key": "gpu.example.com/unhealthy", "effect": effect, "timeAdded": "2026-01-01T11:59:00Z"}]);
            }
            device
        })
        .collect();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("node-{node}-gpu"), "uid": uid(1, node)},
        "spec": {
            "driver": "gpu.example.com", "nodeName": format!("node-{node}"), "devices": list,
            "pool": {"name": format!("node-{node}"), "generation": 1, "resourceSliceCount": 1},
        },
    })
}

/// A pod with a claim that holds a device, and tolerates something or nothing.
fn holder(dice: &mut Dice, number: u64, node: u64, device: u64) -> [Value; 2] {
    let namespace = dice.pick(&["research", "web", "batch"]);
    let tolerations = match dice.below(4) {
        0 => json!([]),
        1 => json!([{"operator": "Exists"}]),
        2 => json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": dice.below(900)}]),
        _ => json!([{"key": "example.com/maintenance", "operator": "Exists", "tolerationSeconds": 60}]),
    };
    let name = format!("pod-{number}");
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid(2, number)},
        "spec": {
            "nodeName": format!("node-{node}"), "priority": dice.below(5), "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": format!("claim-{number}")}],
        },
        "status": {"phase": "Running"},
    });
    if dice.below(2) == 0 {
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid(3, 1), "controller": true}]);
    }
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": format!("claim-{number}"), "namespace": namespace, "uid": uid(4, number)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": tolerations}}]}},
        "status": {
            "allocation": {"devices": {"results": [{
                "request": "gpu", "driver": "gpu.example.com", "pool": format!("node-{node}"), "device": format!("gpu-{device}"),
                "tolerations": tolerations,
            }]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid(2, number)}],
        },
    });
    [pod, claim]
}

fn rule(dice: &mut Dice, nodes: u64) -> Value {
    let pool = format!("node-{}", dice.below(nodes));
    let selector = match dice.below(5) {
        0 => json!({}),
        1 => json!({"driver": "gpu.example.com"}),
        2 => json!({"driver": "gpu.example.com", "pool": pool}),
        3 => json!({"driver": "gpu.example.com", "pool": pool, "device": "gpu-0"}),
        _ => {
            json!({"selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].model == 'large'"}}]})
        }
    };
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "what-if", "uid": uid(5, 1)},
        "spec": {"deviceSelector": selector, "taint": {
            "key": dice.pick(&["example.com/maintenance", "example.com/other"]), "effect": "NoExecute", "timeAdded": NOW}},
    })
}

fn cluster(seed: u64) -> (Vec<Value>, Value) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (nodes, devices) = (1 + dice.below(5), 1 + dice.below(6));
    let mut objects = Vec::new();
    let mut number = 0;
    for node in 0..nodes {
        objects.push(slice(&mut dice, node, devices));
        for device in 0..devices {
            if dice.below(3) > 0 {
                number += 1;
                objects.extend(holder(&mut dice, number, node, device));
            }
        }
    }
    let rule = rule(&mut dice, nodes);
    (objects, rule)
}

/// The fields that both have: the module in the form of `kubectl device plan`, the binary in that of `lazaret plan`.
fn common(plan: &Value) -> Value {
    let pod = |pod: &Value| {
        let fields =
            ["namespace", "name", "uid", "node", "owner", "priority", "tolerationSeconds", "deadline"];
        Value::Object(fields.iter().map(|field| ((*field).to_owned(), pod[*field].clone())).collect())
    };
    let pods = |list: &Value| {
        let mut list: Vec<Value> = list.as_array().unwrap().iter().map(pod).collect();
        list.sort_by_key(|pod| pod["uid"].to_string());
        list
    };
    let devices: Vec<&Value> = match plan["devices"].as_array() {
        Some(devices) => devices.iter().map(|device| &device["name"]).collect(),
        None => plan["publishedDevices"].as_array().unwrap().iter().collect(),
    };
    json!({
        "devices": devices, "claims": plan["claims"], "namespaces": plan["namespaces"],
        "pods": pods(&plan["pods"]), "tolerating": pods(&plan["tolerating"]),
    })
}

#[test]
fn the_page_and_the_binary_make_the_same_plans() {
    let page = Page::load();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.json");
    let mut evicted = 0;
    for seed in 1..=CLUSTERS {
        let (objects, rule) = cluster(seed);
        let answer = page.ask(&json!({"op": "plan", "now": NOW, "objects": objects, "rules": [rule]}));
        assert!(answer["error"].is_null() && answer["skipped"].is_null(), "seed {seed}: {answer}");
        let mut items = objects;
        items.push(rule);
        fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .args(["plan", "--rule", "what-if", "--at", NOW, "-o", "json", "-f"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&output.stderr));
        let binary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (ours, theirs) = (common(&answer["plan"]), common(&binary));
        assert_eq!(ours, theirs, "seed {seed}");
        evicted += ours["pods"].as_array().unwrap().len();
    }
    assert!(evicted > 100, "{evicted} pods in all: the clusters are too empty to tell anything");
}

/// Expressions that a page evaluates with code of its own: regular expressions, and much else of the language.
const EXPRESSIONS: [&str; 12] = [
    r"device.attributes['gpu.example.com'].model.matches('^la(r|g)+e$')",
    r"device.attributes['gpu.example.com'].model.matches('(?i)^L\\pL{2,}\\b')",
    r"device.attributes['gpu.example.com'].model.find('[a-m]+') == 'mall'",
    r"device.attributes['gpu.example.com'].model.findAll('[^aeiou]').size() > 3",
    r"device.driver.matches('(')",
    r"device.attributes['gpu.example.com'].model in ['small', 'tiny']",
    r"device.attributes['gpu.example.com'].model.split('a').exists(part, part.startsWith('rg'))",
    r"semver('1.2.3').isGreaterThan(semver('1.2.0')) && quantity('1Gi').isGreaterThan(quantity('1G'))",
    r"cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && url('https://a/b').getHost() == 'a'",
    r"timestamp('2026-01-01T00:00:00Z').getDayOfYear() == 0 && duration('90m') > duration('1h')",
    r"device.capacity['gpu.example.com'].memory.compareTo(quantity('1Gi')) > 0",
    r"device.nothing == 1",
];

#[test]
fn the_page_answers_every_kind_of_question_as_this_tree_does() {
    let page = Page::load();
    let mut selected = 0;
    for seed in 1..=48 {
        let (objects, mut rule) = cluster(seed);
        let expression = EXPRESSIONS[usize::try_from(seed).unwrap() % EXPRESSIONS.len()];
        if seed % 4 > 0 {
            rule["spec"]["deviceSelector"] = json!({"selectors": [{"cel": {"expression": expression}}]});
        }
        let broken = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"priority": "high"}});
        let objects: Vec<Value> = objects.into_iter().chain((seed % 5 == 0).then_some(broken)).collect();
        for op in ["plan", "select", "impact"] {
            let question = json!({"op": op, "now": NOW, "objects": objects, "rules": [rule]});
            let ours: Value = serde_json::from_str(&lazaret_whatif::answer(&question.to_string())).unwrap();
            assert_eq!(page.ask(&question), ours, "seed {seed}, {op}, {expression}");
            selected += ours["selected"][0]["devices"].as_array().map_or(0, Vec::len);
        }
    }
    assert!(selected > 50, "{selected} devices in all");
}

#[test]
fn a_question_without_sense_is_answered() {
    let page = Page::load();
    for question in [
        json!({}),
        json!({"op": "plan", "now": "yesterday", "rules": [{}]}),
        json!({"op": "plan", "now": NOW}),
        json!({"op": "plan", "now": NOW, "rules": [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}]}),
        json!({"op": "other"}),
    ] {
        assert!(page.ask(&question)["error"].is_string(), "{question}");
    }
    let nothing = json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "a"},
        "spec": {"taint": {"key": "example.com/a", "effect": "None"}},
    });
    let selected = page.ask(&json!({"op": "select", "objects": [], "rules": [nothing]}));
    assert_eq!(selected["selected"], json!([{"devices": []}]));
}

/// Two nodes with a device each, a pod that a Job made on the first.
fn one_pod(second_is_free: bool) -> Vec<Value> {
    let mut dice = Dice(1);
    let mut objects = Vec::new();
    for node in 0..2 {
        let mut slice = slice(&mut dice, node, 1);
        slice["spec"]["devices"][0]["taints"] = json!([]);
        objects.push(slice);
        objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{node}"), "uid": uid(6, node)}}));
    }
    objects.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}));
    for node in 0..if second_is_free { 1 } else { 2 } {
        let [mut pod, mut claim] = holder(&mut dice, node, node, 0);
        for object in [&mut pod, &mut claim] {
            object["metadata"]["namespace"] = json!("research");
        }
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid(3, 1), "controller": true}]);
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
        pod["status"]["resourceClaimStatuses"] =
            json!([{"name": "gpu", "resourceClaimName": format!("claim-{node}")}]);
        claim["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pod", "name": format!("pod-{node}"), "uid": uid(2, node), "controller": true}]);
        claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = json!([]);
        claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] = json!([]);
        objects.extend([pod, claim]);
    }
    objects
}

fn drain_first() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "what-if", "uid": uid(5, 1)},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"},
            "taint": {"key": "example.com/fan", "effect": "NoExecute", "timeAdded": NOW},
        },
    })
}

#[test]
fn the_page_tells_where_pods_would_go_and_which_would_not_fit() {
    let page = Page::load();
    let ask = |objects: Vec<Value>, op: &str| {
        page.ask(&json!({"op": op, "now": NOW, "objects": objects, "rules": [drain_first()]}))
    };
    let fits = ask(one_pod(true), "plan");
    assert_eq!(
        fits["places"],
        json!([{"pod": "research/pod-0", "node": "node-1", "devices": ["gpu.example.com/node-1/gpu-0"]}]),
        "{fits}"
    );
    let full = ask(one_pod(false), "plan");
    assert!(full["places"][0]["node"].is_null(), "{full}");
    assert!(full["places"][0]["problem"].as_str().unwrap().contains("node"), "{full}");
    assert_eq!(ask(one_pod(true), "impact")["impact"], json!({"pods": 1, "namespaces": 1, "devices": 1}));
}
