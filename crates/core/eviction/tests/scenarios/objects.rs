//! A small language for objects, so that tests read like the case they are about.
//!
//! ```text
//! slice worker gen=2 instance{example.com/taint=something:NoExecute@0} spare[model=big,memory~80]
//! taints worker-t pool=worker instance{a=b:NoExecute@0~5}
//! rule evict driver=some-driver device=instance taint=k=v:NoExecute@40~10
//! rule evict class=big cel=device.driver=="some-driver" taint=k=v:NoExecute@40
//! class big cel=device.attributes["some-driver"].model=="big"
//! patch fix device=spare priority=2 set=model=small unset=index amount=memory=10 taint=k=v:NoExecute@0
//! claim my-claim device=instance tolerate=key,Exists,NoExecute,30 owner=my-pod:1234 for=my-pod:1234
//! pod my-pod uid=1234 node=worker claim=my-claim
//! ```
//! A rule says how pods leave with `mode=Evict deadline=30 concurrent=2 together roomy timeout=60` (`roomy` is `capacity: Wait`), who wrote and who approved it with `author=alice
//! approved=10/1/4/bob`; a pod may have `priority=` and `created=`, and leaves `with=` others of that label. A word with a minus (`slice-`, `rule-`, …) takes the object away. `@40` is `timeAdded` in seconds, `~10` after a
//! taint is `evictionsPerSecond`. In brackets are attributes (`=`) and capacities (`~`) of a device. Driver, pool,
//! namespace and node have defaults. An expression has no blanks.

use std::sync::Arc;

use lazaret_fleet::Input;
use lazaret_model::*;

pub(crate) const DRIVER: &str = "some-driver";
pub(crate) const POOL: &str = "worker";

pub(crate) fn parse(line: &str) -> Input {
    let mut words = line.split_whitespace();
    let verb = words.next().unwrap();
    let name = words.next().unwrap_or_else(|| panic!("no name in {line:?}"));
    let rest: Vec<&str> = words.collect();
    match verb {
        "slice" => Input::Slice(Arc::new(slice(name, &rest))),
        "taints" => Input::Slice(Arc::new(taint_slice(name, &rest))),
        "slice-" => Input::SliceGone(name.into()),
        "rule" => Input::Rule(Arc::new(rule(name, &rest))),
        "rule-" => Input::RuleGone(name.into()),
        "class" => Input::Class(Arc::new(class(name, &rest))),
        "class-" => Input::ClassGone(name.into()),
        "patch" => Input::Patch(Arc::new(patch(name, &rest))),
        "patch-" => Input::PatchGone(name.into()),
        "claim" => Input::Claim(Arc::new(claim(name, &rest))),
        "claim-" => Input::ClaimGone(key(name)),
        "pod" => Input::Pod(Arc::new(pod(name, &rest))),
        "pod-" => Input::PodGone(key(name)),
        "node" => Input::Node(Arc::new(node(name, &rest))),
        _ => panic!("unknown verb in {line:?}"),
    }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new("default", name),
    }
}

pub(crate) fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    options(words, name).next()
}

fn options<'a>(words: &[&'a str], name: &str) -> impl Iterator<Item = &'a str> {
    let prefix = format!("{name}=");
    words.iter().filter_map(move |word| word.strip_prefix(prefix.as_str())).collect::<Vec<_>>().into_iter()
}

fn is_option(word: &str) -> bool {
    word.split(['{', '[']).next().unwrap_or(word).contains('=')
}

/// `key=value:Effect@seconds~rate`
pub(crate) fn taint(text: &str) -> Taint {
    let (text, rate) = text.split_once('~').map_or((text, None), |(text, rate)| (text, rate.parse().ok()));
    let (text, at) =
        text.split_once('@').map_or((text, None), |(text, at)| (text, Some(at.parse().unwrap())));
    let (name, effect) = text.split_once(':').unwrap();
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    Taint {
        key: key.into(),
        value: value.into(),
        effect: Effect::from_name(effect),
        time_added: at.map(Timestamp::from_secs),
        evictions_per_second: rate,
        description: None,
        eviction: None,
    }
}

/// `name[attribute=value,capacity~amount]{taint,taint}`
fn device(word: &str) -> Device {
    let (word, taints) = word.split_once('{').unwrap_or((word, ""));
    let (name, values) = word.split_once('[').unwrap_or((word, ""));
    let taints = taints.trim_end_matches('}').split(',').filter(|text| !text.is_empty()).map(taint);
    let values: Vec<&str> = values.trim_end_matches(']').split(',').collect();
    let of = |sign| values.iter().filter_map(move |value| value.split_once(sign));
    Device {
        name: name.into(),
        attributes: of('=').map(|(key, value)| (key.into(), attribute(value))).collect(),
        capacity: of('~').map(|(key, value)| (key.into(), amount(value))).collect(),
        taints: taints.collect(),
        ..Device::default()
    }
}

/// A number if it looks like one.
fn attribute(text: &str) -> AttrValue {
    text.parse().map_or_else(|_| AttrValue::String(text.into()), AttrValue::Int)
}

fn amount(text: &str) -> CapacityValue {
    CapacityValue { value: Quantity::parse(text).unwrap(), policy: None }
}

fn devices(words: &[&str]) -> Vec<Device> {
    words.iter().filter(|word| !is_option(word)).map(|word| device(word)).collect()
}

fn empty_slice(name: &str, words: &[&str]) -> ResourceSlice {
    ResourceSlice {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        driver: option(words, "driver").unwrap_or(DRIVER).into(),
        pool: PoolSpec {
            name: option(words, "pool").unwrap_or(name).into(),
            generation: option(words, "gen").map_or(1, |text| text.parse().unwrap()),
            slice_count: option(words, "of").map_or(1, |text| text.parse().unwrap()),
        },
        nodes: NodeScope::Node(option(words, "on").unwrap_or("worker").into()),
        ..ResourceSlice::default()
    }
}

fn slice(name: &str, words: &[&str]) -> ResourceSlice {
    ResourceSlice { devices: devices(words), ..empty_slice(name, words) }
}

fn taint_slice(name: &str, words: &[&str]) -> ResourceSlice {
    let of = |device: Device| {
        let name = device.name;
        device.taints.into_iter().map(move |taint| SliceTaint { device: name.clone(), taint })
    };
    let taints = devices(words).into_iter().flat_map(of).collect();
    ResourceSlice { taints, ..empty_slice(name, words) }
}

fn selector(words: &[&str]) -> Option<DeviceSelector> {
    let text = |name| option(words, name).map(Text::from);
    (!words.contains(&"nothing")).then(|| DeviceSelector {
        driver: text("driver"),
        pool: text("pool"),
        device: text("device"),
        class: text("class"),
        cel: options(words, "cel").map(Text::from).collect(),
    })
}

fn class(name: &str, words: &[&str]) -> DeviceClass {
    let selectors = options(words, "cel").map(|text| Some(text.into())).collect();
    DeviceClass { name: name.into(), selectors, ..DeviceClass::default() }
}

fn patch(name: &str, words: &[&str]) -> ResourceSlicePatch {
    let set = options(words, "set").map(|text| text.split_once('=').unwrap());
    let unset = options(words, "unset").map(|key| (Text::from(key), None));
    let amounts = options(words, "amount").map(|text| text.split_once('=').unwrap());
    let mut attributes: Vec<_> =
        set.map(|(key, value)| (Text::from(key), Some(attribute(value)))).chain(unset).collect();
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    ResourceSlicePatch {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        generation: option(words, "gen").map_or(1, |text| text.parse().unwrap()),
        selector: selector(words),
        review: review(name, words),
        patch: DevicePatch {
            priority: option(words, "priority").map_or(0, |text| text.parse().unwrap()),
            attributes,
            capacity: amounts.map(|(key, value)| (key.into(), Some(amount(value)))).collect(),
            taints: options(words, "taint").map(taint).collect(),
        },
    }
}

fn rule(name: &str, words: &[&str]) -> DeviceTaintRule {
    let text = |name| option(words, name).map(Text::from);
    DeviceTaintRule {
        name: name.into(),
        uid: text("uid").unwrap_or_else(|| format!("uid-{name}").into()),
        generation: option(words, "gen").map_or(1, |text| text.parse().unwrap()),
        selector: selector(words),
        taint: Taint { eviction: eviction(words), ..taint(option(words, "taint").unwrap()) },
        review: review(name, words),
        ..DeviceTaintRule::default()
    }
}

/// `author=alice`, `approved=10/1/4/bob` for pods, namespaces, devices and by whom, and `request=ID/10/1/4` for the request that it was made by.
fn review(name: &str, words: &[&str]) -> Option<Box<Review>> {
    let written_by = option(words, "author").map(Text::from);
    let approval = option(words, "approved").map(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        let number = |at: usize| parts[at].parse().unwrap();
        Approval {
            uid: format!("uid-{name}").into(),
            generation: option(words, "gen").map_or(1, |text| text.parse().unwrap()),
            seen: Impact { pods: number(0), namespaces: number(1), devices: number(2) },
            by: parts.get(3).map(|by| Text::from(*by)),
            ..Approval::default()
        }
    });
    let request = option(words, "request").map(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        let number = |at: usize| parts.get(at).map_or(0, |text| text.parse().unwrap());
        RuleRequest {
            id: parts[0].into(),
            evicts: words.contains(&"draining"),
            declared: Impact { pods: number(1), namespaces: number(2), devices: number(3) },
        }
    });
    (written_by.is_some() || approval.is_some() || request.is_some())
        .then(|| Box::new(Review { is_required: written_by.is_some(), written_by, approval, request }))
}

/// `mode=Evict deadline=30 concurrent=2 together`
fn eviction(words: &[&str]) -> Option<Arc<EvictionSpec>> {
    let number = |name| option(words, name).map(|text| text.parse::<u32>().unwrap());
    let windows = options(words, "window")
        .map(|text| text.split_once('/').unwrap())
        .map(|(start, duration)| Window::parse(start, duration, "").unwrap())
        .collect();
    let mut spec = EvictionSpec { max_concurrent: number("concurrent"), windows, ..EvictionSpec::default() };
    if let Some(mode) = option(words, "mode") {
        spec.mode = EvictionMode::from_name(mode).unwrap();
    }
    spec.deadline_seconds = number("deadline").map(i64::from);
    spec.expires_at = number("expires").map(|seconds| Timestamp::from_secs(i64::from(seconds)));
    spec.groups = if words.contains(&"together") { GroupMode::Together } else { GroupMode::Apart };
    spec.capacity = if words.contains(&"roomy") { CapacityMode::Wait } else { CapacityMode::Ignore };
    spec.capacity_timeout_seconds = number("timeout").map(i64::from);
    spec.notice_seconds = number("notice").map(i64::from);
    let said = ["mode=", "deadline=", "concurrent=", "expires=", "window=", "together", "roomy", "notice="];
    words.iter().any(|word| said.iter().any(|name| word.starts_with(name))).then(|| Arc::new(spec))
}

/// `key,Operator,Effect,seconds`, or `key=value,…` with operator Equal; `-` is absent.
fn toleration(text: &str) -> Toleration {
    let parts: Vec<&str> = text.split(',').collect();
    let (key, value) = parts[0].split_once('=').unwrap_or((parts[0], ""));
    Toleration {
        key: if key == "-" { "".into() } else { key.into() },
        operator: if parts[1] == "Exists" { TolerationOperator::Exists } else { TolerationOperator::Equal },
        value: value.into(),
        effect: (parts[2] != "-").then(|| Effect::from_name(parts[2])),
        seconds: (parts[3] != "-").then(|| parts[3].parse().unwrap()),
    }
}

fn claim(name: &str, words: &[&str]) -> ResourceClaim {
    let tolerations: Vec<Toleration> = options(words, "tolerate").map(toleration).collect();
    let results: Vec<DeviceResult> = options(words, "device")
        .enumerate()
        .map(|(i, device)| {
            let parts: Vec<&str> = device.split('/').collect();
            let device = match parts[..] {
                [device] => DeviceId::new(DRIVER, POOL, device),
                [pool, device] => DeviceId::new(DRIVER, pool, device),
                [driver, pool, device] => DeviceId::new(driver, pool, device),
                _ => panic!("bad device {device}"),
            };
            DeviceResult {
                request: format!("req-{i}").into(),
                device,
                admin_access: false,
                tolerations: tolerations.clone(),
                binding_conditions: vec![],
                binding_failure_conditions: vec![],
                share_id: None,
                consumed_capacity: vec![],
                skip_node_operations: vec![],
            }
        })
        .collect();
    ResourceClaim {
        key: key(name),
        uid: option(words, "uid").map_or_else(|| format!("uid-{name}").into(), Text::from),
        owner: option(words, "owner").map(owner),
        extended_resource: words.contains(&"extended"),
        allocation: (!results.is_empty()).then(|| Arc::new(Allocation { results, ..Allocation::default() })),
        reserved_for: options(words, "for").map(consumer).collect(),
        spec: Arc::new(spec(words)),
        ..ResourceClaim::default()
    }
}

/// `class=gpu` for each device that is asked for.
fn spec(words: &[&str]) -> ClaimSpec {
    let tolerations: Vec<Toleration> = options(words, "tolerate").map(toleration).collect();
    let request = |(i, class): (usize, &str)| Request {
        name: format!("req-{i}").into(),
        kind: RequestKind::Exactly(DeviceRequest {
            class: class.into(),
            tolerations: tolerations.clone(),
            ..DeviceRequest::default()
        }),
    };
    let requests = options(words, "class").enumerate().map(request).collect();
    ClaimSpec { requests, ..ClaimSpec::default() }
}

/// `node b zone=x taint=k=v:NoSchedule`: what is no taint is a label.
fn node(name: &str, words: &[&str]) -> Node {
    let labels = words.iter().filter(|word| !word.starts_with("taint="));
    let labels = labels.filter_map(|word| word.split_once('='));
    Node {
        name: name.into(),
        labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
        taints: options(words, "taint").map(taint).collect(),
        ..Node::default()
    }
}

fn owner(text: &str) -> Owner {
    let (name, uid) = text.split_once(':').unwrap();
    match name.strip_prefix("group/") {
        Some(group) => Owner {
            group: "scheduling.k8s.io".into(),
            kind: "PodGroup".into(),
            name: group.into(),
            uid: uid.into(),
        },
        None => Owner { group: "".into(), kind: "Pod".into(), name: name.into(), uid: uid.into() },
    }
}

fn consumer(text: &str) -> Consumer {
    let (name, uid) = text.split_once(':').unwrap();
    match name.strip_prefix("group/") {
        Some(group) => Consumer {
            api_group: "scheduling.k8s.io".into(),
            resource: "podgroups".into(),
            name: group.into(),
            uid: uid.into(),
        },
        None => {
            Consumer { api_group: "".into(), resource: "pods".into(), name: name.into(), uid: uid.into() }
        }
    }
}

fn pod(name: &str, words: &[&str]) -> Pod {
    let mut claims: Vec<PodClaim> = options(words, "claim")
        .map(|claim| PodClaim { name: claim.into(), source: ClaimSource::Claim(claim.into()) })
        .collect();
    claims.extend(options(words, "template").map(|resolved| {
        let resolved = match resolved {
            "?" => None,
            "-" => Some(None),
            claim => Some(Some(claim.into())),
        };
        PodClaim {
            name: "from-template".into(),
            source: ClaimSource::Template { template: "t".into(), resolved },
        }
    }));
    let key = key(name);
    Pod {
        uid: option(words, "uid").map_or_else(|| format!("uid-{}", key.name).into(), Text::from),
        key,
        node: match option(words, "node").unwrap_or("worker") {
            "-" => None,
            node => Some(node.into()),
        },
        phase: match option(words, "phase").unwrap_or("Running") {
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Pending" => PodPhase::Pending,
            _ => PodPhase::Running,
        },
        deleting_since: words.contains(&"terminating").then_some(Timestamp::EPOCH),
        claims,
        extended_claim: option(words, "extended").map(Text::from),
        group: option(words, "group").map(Text::from),
        priority: option(words, "priority").map_or(0, |text| text.parse().unwrap()),
        eviction_preference: option(words, "say").and_then(EvictionPreference::parse),
        eviction_group: option(words, "with").map(Text::from),
        created: option(words, "created").map(|text| Timestamp::from_secs(text.parse().unwrap())),
        owner: option(words, "of").map(owner),
        node_requirements: option(words, "select").and_then(|text| text.split_once('=')).map(
            |(key, value)| {
                let labels = [(key.into(), value.into())].into();
                Arc::new(NodeRequirements { labels, ..NodeRequirements::default() })
            },
        ),
        ..Pod::default()
    }
}
