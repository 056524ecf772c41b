//! Each reason to refuse a node, as a table: a pod, two nodes, the node chosen or the message.

use std::sync::Arc;

use lazaret_model::{
    Effect, NodeSelector, NodeSelectorTerm, Operator, Requirement, Taint, Text, Toleration,
    TolerationOperator,
};
use lazaret_scheduler::*;

use crate::world::{World, node, pod};

struct Case {
    name: &'static str,
    nodes: Vec<Node>,
    /// Pods that are there already: name and node.
    there: Vec<(Pod, &'static str)>,
    pod: Pod,
    /// A node, or the message.
    expected: Result<&'static str, &'static str>,
}

fn check(case: Case) {
    let mut world = World::new(Options::default());
    for node in case.nodes {
        world.tell(Input::Node(Arc::new(node)));
    }
    for (mut other, node) in case.there {
        other.node = Some(node.into());
        world.add_pod(other);
    }
    let name = case.pod.key.name.to_string();
    world.add_pod(case.pod);
    world.settle();
    let placed = world.node_of(&name);
    match case.expected {
        Ok(node) => assert_eq!(placed.as_deref(), Some(node), "{}: {}", case.name, world.message_of(&name)),
        Err(message) => {
            assert_eq!(placed, None, "{}", case.name);
            let message = format!("0/{} nodes are available: {message}.", world.scheduler.sizes().nodes);
            let told = world.message_of(&name);
            let told = told.split(" preemption:").next().unwrap();
            assert_eq!(told, message, "{}", case.name);
        }
    }
}

fn with(pod: Pod, change: impl FnOnce(&mut PodSpec)) -> Pod {
    let mut spec = PodSpec::clone(&pod.spec);
    change(&mut spec);
    Pod { spec: Arc::new(spec), ..pod }
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> Node {
    let mut node = node(name, 4_000);
    let facts = Arc::make_mut(&mut node.facts);
    facts.labels.extend(labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))));
    node
}

fn tainted(name: &str, effect: &str) -> Node {
    let taint =
        Taint { key: "k".into(), value: "v".into(), effect: Effect::from_name(effect), ..Taint::default() };
    Node { taints: vec![taint], ..node(name, 4_000) }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
    Requirement {
        key: key.into(),
        operator: Operator::from_name(operator),
        values: values.iter().map(|value| Text::from(*value)).collect(),
    }
}

fn affine(requirements: Vec<Requirement>, fields: Vec<Requirement>) -> Pod {
    let term = NodeSelectorTerm { match_expressions: requirements, match_fields: fields };
    with(pod("p", 100, &[]), |spec| spec.node_affinity = Some(NodeSelector { terms: vec![term] }))
}

#[test]
fn what_nodes_are() {
    let two = || vec![node("a", 4_000), labelled("b", &[("zone", "z"), ("size", "7")])];
    let cordoned = |name| Node { unschedulable: true, ..node(name, 4_000) };
    let tolerating = |key: &str, effect: Option<Effect>| {
        let toleration = Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            effect,
            ..Toleration::default()
        };
        with(pod("p", 100, &[]), |spec| spec.tolerations = vec![toleration])
    };
    let plain = || pod("p", 100, &[]);
    let case = |name, nodes, pod, expected| check(Case { name, nodes, there: vec![], pod, expected });

    case("cordoned", vec![cordoned("a"), node("b", 4_000)], plain(), Ok("b"));
    case("all cordoned", vec![cordoned("a")], plain(), Err("1 node(s) were unschedulable"));
    let toleration = "node.kubernetes.io/unschedulable";
    case("cordoned, tolerated", vec![cordoned("a")], tolerating(toleration, None), Ok("a"));

    case("NoSchedule", vec![tainted("a", "NoSchedule")], plain(), Err("1 node(s) had untolerated taint(s)"));
    case("NoExecute", vec![tainted("a", "NoExecute")], plain(), Err("1 node(s) had untolerated taint(s)"));
    case("tolerated", vec![tainted("a", "NoSchedule")], tolerating("k", None), Ok("a"));
    let other_effect = tolerating("k", Some(Effect::NoExecute));
    case(
        "other effect",
        vec![tainted("a", "NoSchedule")],
        other_effect,
        Err("1 node(s) had untolerated taint(s)"),
    );
    case("preferably not", vec![tainted("a", "PreferNoSchedule"), node("b", 4_000)], plain(), Ok("b"));
    case("preferably not, but", vec![tainted("a", "PreferNoSchedule")], plain(), Ok("a"));

    let selecting = |key: &str, value: &str| {
        let label = (Text::from(key), Text::from(value));
        with(pod("p", 100, &[]), |spec| spec.node_selector = [label].into())
    };
    case("selector", two(), selecting("zone", "z"), Ok("b"));
    case(
        "selector, none",
        two(),
        selecting("zone", "y"),
        Err("2 node(s) didn't match Pod's node affinity/selector"),
    );

    for (operator, values, expected) in [
        ("In", &["z", "y"][..], Some("b")),
        ("In", &["y"], None),
        ("NotIn", &["z"], Some("a")),
        ("Exists", &[], Some("b")),
        ("DoesNotExist", &[], Some("a")),
    ] {
        let expected = expected.ok_or("2 node(s) didn't match Pod's node affinity/selector");
        case(operator, two(), affine(vec![requirement("zone", operator, values)], vec![]), expected);
    }
    case("Gt", two(), affine(vec![requirement("size", "Gt", &["6"])], vec![]), Ok("b"));
    let less = affine(vec![requirement("size", "Lt", &["7"])], vec![]);
    case("Lt", two(), less, Err("2 node(s) didn't match Pod's node affinity/selector"));
    case("by name", two(), affine(vec![], vec![requirement("metadata.name", "In", &["b"])]), Ok("b"));
    let missing = affine(vec![], vec![requirement("metadata.name", "In", &["c"])]);
    case("by name, none", two(), missing, Err("2 node(s) didn't satisfy plugin(s) [NodeAffinity]"));
    let bad = affine(vec![requirement("zone", "Like", &["z"])], vec![]);
    case("unknown operator", two(), bad, Err("2 node(s) didn't match Pod's node affinity/selector"));

    let preferring = with(plain(), |spec| {
        let match_expressions = vec![requirement("zone", "In", &["z"])];
        spec.preferred_nodes = vec![(10, NodeSelectorTerm { match_expressions, match_fields: vec![] })];
    });
    case("preferred", two(), preferring, Ok("b"));
    case("none at all", vec![], plain(), Err("no nodes are known"));
}

#[test]
fn room() {
    let case = |name, nodes, there, pod, expected| check(Case { name, nodes, there, pod, expected });
    let one = || vec![node("a", 1_000)];
    case("fits exactly", one(), vec![], pod("p", 1_000, &[]), Ok("a"));
    case("too large", one(), vec![], pod("p", 1_001, &[]), Err("1 Insufficient cpu"));
    case("taken", one(), vec![(pod("q", 1, &[]), "a")], pod("p", 1_000, &[]), Err("1 Insufficient cpu"));
    case("asks for nothing", vec![node("a", 0)], vec![], pod("p", 0, &[]), Ok("a"));
    let hungry = with(pod("p", 2_000, &[]), |spec| {
        spec.requests.memory = 1 << 50;
        spec.requests.ephemeral_storage = 1 << 50;
    });
    let all = "1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient memory";
    case("several", one(), vec![], hungry, Err(all));
    let few = |pods_max| vec![Node { pods_max, ..node("a", 1_000) }];
    case("one pod more", few(2), vec![(pod("q", 0, &[]), "a")], pod("p", 0, &[]), Ok("a"));
    case("too many pods", few(1), vec![(pod("q", 0, &[]), "a")], pod("p", 0, &[]), Err("1 Too many pods"));

    let of =
        |amount| with(pod("p", 0, &[]), |spec| spec.requests.set_other(&"example.com/fpga".into(), amount));
    let mut has = node("b", 1_000);
    has.allocatable.set_other(&"example.com/fpga".into(), 2);
    case("extended", vec![node("a", 1_000), has.clone()], vec![], of(2), Ok("b"));
    let short = "2 Insufficient example.com/fpga";
    case("extended, too many", vec![node("a", 1_000), has], vec![], of(3), Err(short));

    let port = |port, address: &str| HostPort { port, protocol: "TCP".into(), address: address.into() };
    let with_port = |name, wanted| with(pod(name, 0, &[]), |spec| spec.ports = vec![wanted]);
    let there = || vec![(with_port("q", port(80, "10.0.0.1")), "a")];
    let clash = Err("1 node(s) didn't have free ports for the requested pod ports");
    case("same port", one(), there(), with_port("p", port(80, "10.0.0.1")), clash);
    case("all addresses", one(), there(), with_port("p", port(80, "0.0.0.0")), clash);
    case("other address", one(), there(), with_port("p", port(80, "10.0.0.2")), Ok("a"));
    case("other port", one(), there(), with_port("p", port(81, "10.0.0.1")), Ok("a"));
}

fn app(name: &str, app: &str) -> Pod {
    Pod { labels: Arc::new([("app".into(), app.into())].into()), ..pod(name, 100, &[]) }
}

fn term(app: &str, topology: &str) -> PodTerm {
    PodTerm {
        selector: Some(LabelSelector { requirements: vec![requirement("app", "In", &[app])] }),
        namespaces: vec!["ns".into()],
        namespace_selector: None,
        topology: topology.into(),
    }
}

#[test]
fn neighbours() {
    let zones = || {
        vec![
            labelled("a", &[("zone", "x")]),
            labelled("b", &[("zone", "y")]),
            labelled("c", &[("zone", "y")]),
            node("d", 4_000),
        ]
    };
    let case = |name, there, pod, expected| check(Case { name, nodes: zones(), there, pod, expected });
    let near = |pod, app, key| with(pod, |spec| spec.affinity = vec![term(app, key)]);
    let apart = |pod, app, key| with(pod, |spec| spec.anti_affinity = vec![term(app, key)]);

    case("near", vec![(app("q", "db"), "a")], near(app("p", "web"), "db", "zone"), Ok("a"));
    case(
        "near nobody",
        vec![],
        near(app("p", "web"), "db", "zone"),
        Err("4 node(s) didn't match pod affinity rules"),
    );
    let first = near(app("p", "db"), "db", "zone");
    let nodes = vec![node("d", 4_000), labelled("e", &[("zone", "x")])];
    check(Case { name: "the first of its kind", nodes, there: vec![], pod: first, expected: Ok("e") });

    let everywhere = vec![(app("q", "db"), "a"), (app("r", "db"), "b")];
    case("apart", everywhere, apart(app("p", "web"), "db", "zone"), Ok("d"));
    let there =
        vec![(app("q", "db"), "a"), (app("r", "db"), "b"), (app("s", "db"), "c"), (app("t", "db"), "d")];
    let refused = Err("4 node(s) didn't match pod anti-affinity rules");
    case("apart from all", there, apart(app("p", "web"), "db", "kubernetes.io/hostname"), refused);
    let keeping =
        vec![(apart(app("q", "db"), "web", "zone"), "a"), (apart(app("r", "db"), "web", "zone"), "c")];
    case("kept away by others", keeping, app("p", "web"), Ok("d"));
    let nodes = vec![labelled("a", &[("zone", "x")])];
    let there = vec![(apart(app("q", "db"), "web", "zone"), "a")];
    let expected = Err("1 node(s) didn't satisfy existing pods anti-affinity rules");
    check(Case { name: "kept away", nodes, there, pod: app("p", "web"), expected });

    let rather =
        |weight| with(app("p", "web"), |spec| spec.preferred_pods = vec![(weight, term("db", "zone"))]);
    case("rather near", vec![(app("q", "db"), "a")], rather(50), Ok("a"));
    let nodes = vec![labelled("a", &[("zone", "x")]), labelled("b", &[("zone", "y")])];
    check(Case {
        name: "rather apart",
        nodes,
        there: vec![(app("q", "db"), "a")],
        pod: rather(-50),
        expected: Ok("b"),
    });
}

#[test]
fn even_spreading() {
    let zones = || vec![labelled("a", &[("zone", "x")]), labelled("b", &[("zone", "y")])];
    let spread = |change: fn(&mut Spread)| {
        let mut rule = Spread {
            skew_max: 1,
            topology: "zone".into(),
            required: true,
            selector: Some(LabelSelector { requirements: vec![requirement("app", "In", &["web"])] }),
            domains_min: 1,
            honors_affinity: true,
            honors_taints: false,
        };
        change(&mut rule);
        with(app("p", "web"), |spec| spec.spread = vec![rule])
    };
    let case = |name, nodes, there, pod, expected| check(Case { name, nodes, there, pod, expected });
    let web = |name: &'static str, node| (app(name, "web"), node);

    case("to the emptier", zones(), vec![web("q", "a")], spread(|_| {}), Ok("b"));
    let full = Node { pods_max: 0, ..labelled("b", &[("zone", "y")]) };
    let nodes = vec![labelled("a", &[("zone", "x")]), full];
    let uneven = "1 Too many pods, 1 node(s) didn't match pod topology spread constraints";
    case("not to the fuller", nodes.clone(), vec![web("q", "a")], spread(|_| {}), Err(uneven));
    case("unless allowed", nodes, vec![web("q", "a")], spread(|rule| rule.skew_max = 2), Ok("a"));
    let more = spread(|rule| rule.domains_min = 3);
    let both = vec![web("q", "a"), web("r", "b")];
    let refused = Err("2 node(s) didn't match pod topology spread constraints");
    case("as if there were more zones", zones(), both, more, refused);
    let label = Err("1 node(s) didn't match pod topology spread constraints (missing required label)");
    case("without the label", vec![node("a", 4_000)], vec![], spread(|_| {}), label);
    let rather = spread(|rule| rule.required = false);
    case("rather even", zones(), vec![web("q", "a")], rather, Ok("b"));
}

#[test]
fn among_large_nodes_the_one_with_fewer_pods_is_taken() {
    let large = |name| {
        let mut node = labelled(name, &[]);
        node.allocatable.cpu_milli = 1_000_000;
        node.allocatable.memory = 4 << 40;
        node
    };
    let nodes = || vec![large("a"), large("b"), large("c")];
    let case = |there, expected| {
        check(Case {
            name: "fewer pods",
            nodes: nodes(),
            there,
            pod: app("p", "web"),
            expected: Ok(expected),
        });
    };
    case(vec![], "a");
    case(vec![(app("q", "x"), "a")], "b");
    case(vec![(app("q", "x"), "a"), (app("r", "x"), "b")], "c");
    case(vec![(app("q", "x"), "a"), (app("r", "x"), "b"), (app("s", "x"), "c")], "a");
}
