//! A few words for fleets and claims, so that a case is a few lines.
//!
//! ```text
//! == name of the case        letters of the features that are on, see `features`
//! node n1 zone=1 +Feature    the node (n1 zone=1 if not given)
//! class a `cel` config=x     without CEL it selects the driver of its own name; `class a *` selects everything
//! slice s1 a/p1^2/3 @n1: d1 numa=1; d2      slice, driver/pool^generation/slices, where; devices
//! counters s2 a/p1/2 @n1: set x=4           a slice of counters
//! held a/p1/d1 share mem=2                  somebody has it, or a share of it
//! claim c0: r0=a*2; r1=[s0 b | s1 a]; match a/numa on r0; config x on r0
//! -> c0: r0 a/p1/d1; @n1                    what comes of it; or `none`, `fatal`, `node`
//! ```
//! Where: `@n1` a node, `@*` everywhere, `@each` each device says, `@zone=1,2` a label, `@name=n1` the node's name,
//! `@a=1|b=2` several terms, `@?` not known.
//! Words of a device: `.key=value` an attribute (`1`, `true`, `v1.0.0`, text, `[…,…]`, `?`), `key=8` a capacity with
//! `{default=2,in=2+4,min=2,max=4,step=2}`, `-set.counter=1` what it draws, `~set=group+group`, `!key=value:Effect`
//! a taint, `shared`, `@…` where it is, `binds`, `when=A+B`, `fails=C`.
//! Words of a request: `` `cel` ``, `admin`, `admin=no`, `tol:key:Effect`, `tol:key=value:Effect`, `tol:*`, `need:key=2`,
//! `` derive:attribute=`cel` ``.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_allocator::Features;
use lazaret_fleet::Input;
use lazaret_model::*;

/// A case: the fleet, the claims, and the expected answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) features: Option<Features>,
    pub(crate) node: Node,
    pub(crate) classes: Vec<DeviceClass>,
    pub(crate) slices: Vec<ResourceSlice>,
    pub(crate) held: Vec<ResourceClaim>,
    pub(crate) claims: Vec<Arc<ResourceClaim>>,
    pub(crate) expected: Vec<String>,
}

impl Case {
    /// Everything that there is, in the order written.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::Node(Arc::new(self.node.clone()))];
        inputs.extend(self.classes.iter().cloned().map(|class| Input::Class(Arc::new(class))));
        inputs.extend(self.slices.iter().cloned().map(|slice| Input::Slice(Arc::new(slice))));
        inputs.extend(self.held.iter().cloned().map(|claim| Input::Claim(Arc::new(claim))));
        inputs
    }
}

/// All cases of a text.
pub(crate) fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix("==") {
            let mut words = header.split_whitespace();
            let name = words.next().expect("a name").to_owned();
            let features = Some(features(&words.collect::<String>()));
            let node = node("n1 zone=1");
            cases.push(Case { name, features, node, ..Case::default() });
        } else {
            let case = cases.last_mut().expect("a header first");
            statement(case, line);
        }
    }
    cases
}

/// The features with these letters.
pub(crate) fn features(letters: &str) -> Features {
    let mut features = Features::none();
    for letter in letters.chars() {
        match letter {
            'A' => features.admin_access = true,
            'P' => features.prioritized_list = true,
            'C' => features.partitionable_devices = true,
            'T' => features.device_taints = true,
            'B' => (features.binding_conditions, features.device_status) = (true, true),
            'K' => features.consumable_capacity = true,
            'F' => features.fractional_capacity_range = true,
            'L' => features.list_type_attributes = true,
            'D' => features.derived_attributes = true,
            'G' => features.compatibility_groups = true,
            'O' => features.optional_node_operations = true,
            other => panic!("no feature {other}"),
        }
    }
    features
}

fn statement(case: &mut Case, line: &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "node" => case.node = node(rest),
        "class" => case.classes.push(class(rest)),
        "slice" => case.slices.push(slice(rest, false)),
        "counters" => case.slices.push(slice(rest, true)),
        "held" => {
            let number = case.held.len();
            case.held.push(held(rest, number));
        }
        "claim" => case.claims.push(Arc::new(claim(rest))),
        "->" => case.expected.push(rest.to_owned()),
        other => panic!("{}: unknown word {other}", case.name),
    }
}

fn node(text: &str) -> Node {
    let mut words = text.split_whitespace();
    let mut node = Node { name: words.next().expect("a name").into(), ..Node::default() };
    for word in words {
        match word.strip_prefix('+') {
            Some(feature) => node.declared_features.push(feature.into()),
            None => {
                let (key, value) = pair(word);
                node.labels.insert(key.into(), value.into());
            }
        }
    }
    node
}

fn class(text: &str) -> DeviceClass {
    let words = words(text);
    let name = words[0].as_str();
    let mut class = DeviceClass { name: name.into(), ..DeviceClass::default() };
    let mut plain = true;
    for word in &words[1..] {
        if word == "*" {
            plain = false;
        } else if let Some(expression) = quoted(word) {
            class.selectors.push(Some(expression.into()));
            plain = false;
        } else if let Some(config) = word.strip_prefix("config=") {
            class.config.push(Some(opaque(config)));
        } else if word == "unknown" {
            class.selectors.push(None);
        } else {
            panic!("class {name}: {word}");
        }
    }
    if plain {
        class.selectors.insert(0, Some(format!("device.driver == \"{name}\"").into()));
    }
    class
}

fn opaque(name: &str) -> Opaque {
    Opaque { driver: "any".into(), parameters: format!("{{\"name\":\"{name}\"}}").into() }
}

fn slice(text: &str, counters: bool) -> ResourceSlice {
    let (head, body) = text.split_once(':').unwrap_or((text, ""));
    let head: Vec<&str> = head.split_whitespace().collect();
    let (pool, count) = match head[1].match_indices('/').nth(1) {
        Some((at, _)) => (&head[1][..at], head[1][at + 1..].parse().unwrap()),
        None => (head[1], 1),
    };
    let (pool, generation) = pool.split_once('^').map_or((pool, 1), |(pool, g)| (pool, g.parse().unwrap()));
    let (driver, pool) = pool.split_once('/').expect("driver/pool");
    let parts = body.split(';').map(str::trim).filter(|part| !part.is_empty());
    let mut slice = ResourceSlice {
        name: head[0].into(),
        uid: head[0].into(),
        driver: driver.into(),
        pool: PoolSpec { name: pool.into(), generation, slice_count: count },
        nodes: scope(head[2]),
        ..ResourceSlice::default()
    };
    for word in &head[3..] {
        let (_, operations) = pair(word);
        slice.skip_node_operations = operations.split('+').map(Text::from).collect();
    }
    if counters {
        slice.shared_counters = parts.map(counter_set).collect();
    } else {
        slice.devices = parts.flat_map(devices).collect();
    }
    slice
}

fn scope(text: &str) -> NodeScope {
    match text.strip_prefix('@').expect("@where") {
        "*" => NodeScope::All,
        "each" => NodeScope::PerDevice,
        "?" => NodeScope::Unknown,
        terms if terms.contains('=') => {
            NodeScope::Selector(NodeSelector { terms: terms.split('|').map(term).collect() })
        }
        name => NodeScope::Node(name.into()),
    }
}

fn term(text: &str) -> NodeSelectorTerm {
    let (key, values) = pair(text);
    let requirement = |key: &str| Requirement {
        key: key.into(),
        operator: Operator::In,
        values: values.split(',').map(Text::from).collect(),
    };
    match key {
        "name" => NodeSelectorTerm { match_fields: vec![requirement("metadata.name")], ..Default::default() },
        "bad" => NodeSelectorTerm {
            match_expressions: vec![Requirement {
                operator: Operator::Unknown("Bad".into()),
                ..requirement("zone")
            }],
            ..Default::default()
        },
        key => NodeSelectorTerm { match_expressions: vec![requirement(key)], ..Default::default() },
    }
}

fn counter_set(text: &str) -> CounterSet {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap().into();
    CounterSet { name, counters: sorted(words.map(amount)) }
}

/// `d1..3` stands for `d1`, `d2` and `d3`, all alike.
fn devices(text: &str) -> Vec<Device> {
    let all = words(text);
    let device = device(&all);
    let Some((first, last)) = all[0].split_once("..") else { return vec![device] };
    let digits = first.trim_start_matches(|c: char| !c.is_ascii_digit());
    let prefix = &first[..first.len() - digits.len()];
    (digits.parse::<u32>().unwrap()..=last.parse().unwrap())
        .map(|number| Device { name: format!("{prefix}{number}").into(), ..device.clone() })
        .collect()
}

fn device(words: &[String]) -> Device {
    let mut device = Device { name: words[0].as_str().into(), ..Device::default() };
    let names =
        |text: &str| text.split('+').filter(|name| !name.is_empty()).map(Text::from).collect::<Vec<_>>();
    for word in &words[1..] {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (word.as_bytes()[0], key) {
            (b'.', _) => device.attributes.push((key[1..].into(), attribute(value))),
            (b'-', _) => {
                let (set, counter) = key[1..].split_once('.').unwrap();
                let counter = (counter.into(), quantity(value));
                consumption(&mut device, set).counters.push(counter);
            }
            (b'~', _) => consumption(&mut device, &key[1..]).compatibility_groups = names(value),
            (b'!', _) => device.taints.push(taint(&word[1..])),
            (b'@', _) => device.nodes = Some(scope(word)),
            (_, "shared") => device.allow_multiple_allocations = Some(true),
            (_, "binds") => device.binds_to_node = true,
            (_, "when") => device.binding_conditions = Some(names(value)),
            (_, "fails") => device.binding_failure_conditions = Some(names(value)),
            (_, key) => device.capacity.push((key.into(), capacity(value))),
        }
    }
    device.attributes.sort_by(|a, b| a.0.cmp(&b.0));
    device.capacity.sort_by(|a, b| a.0.cmp(&b.0));
    device
}

fn consumption<'d>(device: &'d mut Device, set: &str) -> &'d mut CounterConsumption {
    let all = &mut device.consumes_counters;
    let at = all.iter().position(|known| *known.counter_set == *set).unwrap_or_else(|| {
        all.push(CounterConsumption {
            counter_set: set.into(),
            counters: vec![],
            compatibility_groups: vec![],
        });
        all.len() - 1
    });
    &mut all[at]
}

fn attribute(text: &str) -> AttrValue {
    let version = |text: &str| text.strip_prefix('v').map(VersionValue::new);
    if let Some(list) = text.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        let items: Vec<&str> = list.split(',').collect();
        return if items.iter().all(|item| item.parse::<i64>().is_ok()) {
            AttrValue::Ints(items.iter().map(|item| item.parse().unwrap()).collect())
        } else if items.iter().all(|item| item.parse::<bool>().is_ok()) {
            AttrValue::Bools(items.iter().map(|item| item.parse().unwrap()).collect())
        } else if items.iter().all(|item| item.starts_with('v')) {
            AttrValue::Versions(items.iter().filter_map(|item| version(item)).collect())
        } else {
            AttrValue::Strings(items.iter().map(|item| Text::from(*item)).collect())
        };
    }
    match text {
        "?" => AttrValue::Unsupported,
        "true" | "false" => AttrValue::Bool(text == "true"),
        _ if text.parse::<i64>().is_ok() => AttrValue::Int(text.parse().unwrap()),
        _ if text.starts_with('v') && text.contains('.') => AttrValue::Version(version(text).unwrap()),
        _ => AttrValue::String(text.into()),
    }
}

fn capacity(text: &str) -> CapacityValue {
    let Some((value, policy)) = text.split_once('{') else {
        return CapacityValue { value: quantity(text), policy: None };
    };
    let mut entries: BTreeMap<&str, &str> = policy.trim_end_matches('}').split(',').map(pair).collect();
    let mut take = |key: &str| entries.remove(key);
    let (default, values) = (take("default").map(quantity), take("in"));
    let (min, max, step) = (take("min").map(quantity), take("max").map(quantity), take("step").map(quantity));
    let policy = RequestPolicy {
        default,
        valid_values: values.into_iter().flat_map(|values| values.split('+')).map(quantity).collect(),
        valid_range: (min.is_some() || max.is_some() || step.is_some()).then_some(ValidRange {
            min,
            max,
            step,
        }),
    };
    CapacityValue { value: quantity(value), policy: Some(policy) }
}

fn taint(text: &str) -> Taint {
    let (key, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    Taint { key: key.into(), value: value.into(), effect: Effect::from_name(effect), ..Taint::default() }
}

fn held(text: &str, number: usize) -> ResourceClaim {
    let words: Vec<&str> = text.split_whitespace().collect();
    let parts: Vec<&str> = words[0].split('/').collect();
    let shared = words.get(1) == Some(&"share");
    let result = DeviceResult {
        request: "r".into(),
        device: DeviceId::new(parts[0], parts[1], parts[2]),
        admin_access: words.get(1) == Some(&"admin"),
        tolerations: vec![],
        binding_conditions: vec![],
        binding_failure_conditions: vec![],
        share_id: shared.then(|| format!("00000000-0000-4000-8000-{number:012}").into()),
        consumed_capacity: if shared { sorted(words[2..].iter().map(|word| amount(word))) } else { vec![] },
        skip_node_operations: vec![],
    };
    let name = format!("held-{number}");
    ResourceClaim {
        key: ObjectKey::new("held", name.as_str()),
        uid: name.into(),
        allocation: Some(Arc::new(Allocation { results: vec![result], ..Allocation::default() })),
        ..ResourceClaim::default()
    }
}

fn claim(text: &str) -> ResourceClaim {
    let (name, body) = text.split_once(':').unwrap_or((text, ""));
    let mut spec = ClaimSpec::default();
    for item in split(body, ';') {
        let words = words(&item);
        let Some(first) = words.first() else { continue };
        let on = || {
            let at = words.iter().position(|word| word == "on").map_or(words.len(), |at| at + 1);
            words[at..].iter().map(|word| Text::from(word.as_str())).collect::<Vec<_>>()
        };
        match first.as_str() {
            "match" => spec
                .constraints
                .push(Constraint { requests: on(), kind: ConstraintKind::Match(words[1].as_str().into()) }),
            "distinct" => spec.constraints.push(Constraint {
                requests: on(),
                kind: ConstraintKind::Distinct(words[1].as_str().into()),
            }),
            "unconstrained" => {
                spec.constraints.push(Constraint { requests: on(), kind: ConstraintKind::Unknown });
            }
            "config" => spec.config.push(ClaimConfig { requests: on(), opaque: Some(opaque(&words[1])) }),
            _ => spec.requests.push(request(&item)),
        }
    }
    let name = name.trim();
    ResourceClaim {
        key: ObjectKey::new("default", name),
        uid: name.into(),
        spec: Arc::new(spec),
        ..ResourceClaim::default()
    }
}

fn request(text: &str) -> Request {
    let (name, body) = text.trim().split_once('=').expect("name=class");
    let kind = match body.strip_prefix('[').and_then(|list| list.trim_end().strip_suffix(']')) {
        Some(list) => RequestKind::FirstAvailable(
            split(list, '|')
                .iter()
                .map(|item| {
                    let (name, body) = item.trim().split_once(' ').expect("name class");
                    DeviceRequest { name: name.into(), ..device_request(body) }
                })
                .collect(),
        ),
        None => RequestKind::Exactly(device_request(body)),
    };
    Request { name: name.trim().into(), kind }
}

fn device_request(text: &str) -> DeviceRequest {
    let words = words(text);
    let (class, mode) = match words[0].split_once('*') {
        None => (words[0].as_str(), AllocationMode::default()),
        Some((class, "all")) => (class, AllocationMode::All),
        Some((class, "unknown")) => (class, AllocationMode::Unknown("unknown".into())),
        Some((class, count)) => (class, AllocationMode::Exact(count.parse().unwrap())),
    };
    let class = if class == "-" { "" } else { class };
    let mut request = DeviceRequest { class: class.into(), mode, ..DeviceRequest::default() };
    for word in &words[1..] {
        if let Some(expression) = quoted(word) {
            request.selectors.push(Some(expression.into()));
        } else if let Some(toleration) = word.strip_prefix("tol:") {
            request.tolerations.push(self::toleration(toleration));
        } else if let Some(need) = word.strip_prefix("need:") {
            let mut all = request.capacity.take().unwrap_or_default();
            all.push(amount(need));
            request.capacity = Some(sorted(all.into_iter()));
        } else if let Some(derived) = word.strip_prefix("derive:") {
            let (name, expression) = derived.split_once('=').unwrap();
            let expression = quoted(expression).unwrap().into();
            request.derived_attributes.push(DerivedAttribute { name: name.into(), expression });
        } else {
            match word.as_str() {
                "admin" => request.admin_access = Some(true),
                "admin=no" => request.admin_access = Some(false),
                "unknown" => request.selectors.push(None),
                other => panic!("request word {other}"),
            }
        }
    }
    request
}

fn toleration(text: &str) -> Toleration {
    if text == "*" {
        return Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
    }
    let (key, effect) = text.rsplit_once(':').unwrap();
    let effect = (!effect.is_empty()).then(|| Effect::from_name(effect));
    match key.split_once('=') {
        Some((key, value)) => {
            Toleration { key: key.into(), value: value.into(), effect, ..Toleration::default() }
        }
        None => Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            effect,
            ..Toleration::default()
        },
    }
}

/// The text of a word in backquotes.
fn quoted(word: &str) -> Option<&str> {
    word.strip_prefix('`')?.strip_suffix('`')
}

/// Words, of which backquotes keep their spaces.
fn words(text: &str) -> Vec<String> {
    split(text, ' ').into_iter().filter(|word| !word.is_empty()).collect()
}

/// Splits outside of backquotes and brackets.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut quoted, mut depth) = (vec![String::new()], false, 0);
    for c in text.chars() {
        match c {
            '`' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ => {}
        }
        if c == separator && !quoted && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn pair(text: &str) -> (&str, &str) {
    text.split_once('=').unwrap_or_else(|| panic!("{text}: key=value"))
}

fn amount(text: &str) -> (Text, Quantity) {
    let (key, value) = pair(text);
    (key.into(), quantity(value))
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn sorted(entries: impl Iterator<Item = (Text, Quantity)>) -> Vec<(Text, Quantity)> {
    entries.collect::<BTreeMap<_, _>>().into_iter().collect()
}
