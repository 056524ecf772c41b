use std::string::ToString;

use super::*;

fn node() -> Node {
    let labels = [("zone", "a"), ("cores", "8"), ("big", "99999999999999999999"), ("empty", "")];
    Node {
        name: "n1".into(),
        labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        declared_features: Vec::new(),
        taints: Vec::new(),
    }
}

fn requirement(text: &str) -> Requirement {
    let mut words = text.split(' ');
    Requirement {
        key: words.next().unwrap().into(),
        operator: Operator::from_name(words.next().unwrap()),
        values: words.map(|word| if word == "''" { "" } else { word }.into()).collect(),
    }
}

/// Terms by `|`, requirements by `&`; one that starts with `.` is on a field.
fn selector(text: &str) -> NodeSelector {
    let term = |text: &str| {
        let mut term = NodeSelectorTerm::default();
        for one in text.split('&').map(str::trim).filter(|one| !one.is_empty()) {
            match one.strip_prefix('.') {
                Some(field) => term.match_fields.push(requirement(field)),
                None => term.match_expressions.push(requirement(one)),
            }
        }
        term
    };
    NodeSelector { terms: text.split('|').map(term).collect() }
}

#[test]
fn matching() {
    for (text, expected) in [
        ("zone In a", true),
        ("zone In b a", true),
        ("zone In b", false),
        ("none In a", false),
        ("empty In ''", true),
        ("none In ''", false),
        ("zone NotIn b", true),
        ("zone NotIn a b", false),
        ("none NotIn a", true),
        ("zone Exists", true),
        ("none Exists", false),
        ("zone DoesNotExist", false),
        ("none DoesNotExist", true),
        ("cores Gt 7", true),
        ("cores Gt 8", false),
        ("cores Lt 9", true),
        ("cores Lt 8", false),
        ("none Gt 0", false),
        ("none Lt 9", false),
        ("zone Gt 0", false),
        ("big Gt 0", false),
        ("zone In a & cores Gt 7", true),
        ("zone In a & cores Gt 9", false),
        ("zone In b | cores Gt 7", true),
        (".metadata.name In n1", true),
        (".metadata.name In n2", false),
        (".metadata.name NotIn n2", true),
        (".metadata.name NotIn n1", false),
        (".spec.other In n1", false),
        (".spec.other NotIn n1", true),
        ("zone In a & .metadata.name In n2", false),
        // A term without requirements matches nothing.
        ("", false),
        ("| zone In a", true),
        // A malformed term does not matter when another one matches.
        ("zone Near a | zone In a", true),
    ] {
        assert_eq!(selector(text).matches(&node()), Ok(expected), "{text}");
    }
    assert_eq!(NodeSelector::default().matches(&node()), Ok(false));
}

#[test]
fn errors() {
    for (text, term, wanted) in [
        ("zone Near a", 0, "operator \"Near\" is not supported"),
        ("zone In b | zone Near a", 1, "operator \"Near\""),
        ("zone In", 0, "another number of values"),
        ("zone NotIn", 0, "another number of values"),
        ("zone Exists a", 0, "another number of values"),
        ("zone DoesNotExist a", 0, "another number of values"),
        ("cores Gt", 0, "another number of values"),
        ("cores Gt 1 2", 0, "another number of values"),
        ("cores Lt many", 0, "\"many\" is not a whole number"),
        ("cores Gt -1", 0, "bad value: a label value consists of"),
        ("zo/ne/s Exists", 0, "bad key: at most one '/'"),
        ("zone In a_", 0, "bad value"),
        // Also when another requirement of the term already fails.
        ("zone In b & zone Near a", 0, "operator \"Near\""),
        (".metadata.name In n1 n2", 0, "another number of values"),
        (".metadata.name Exists", 0, "operator \"Exists\""),
        (".metadata.name Gt 1", 0, "operator \"Gt\""),
    ] {
        let error = selector(text).matches(&node()).expect_err(text);
        assert_eq!(error.term, term, "{text}");
        assert!(error.to_string().contains(wanted), "{text}: {error}");
    }
}

#[test]
fn a_node_without_a_name_has_no_fields() {
    let nameless = Node { name: Text::default(), ..node() };
    assert_eq!(selector("zone In a & .metadata.name In n2").matches(&nameless), Ok(true));
}

#[test]
fn operator_names_come_back() {
    for name in ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"] {
        assert_eq!(Operator::from_name(name).name(), name);
    }
}
