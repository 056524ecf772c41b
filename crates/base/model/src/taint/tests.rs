use std::string::ToString;

use super::*;

fn taint(text: &str) -> Taint {
    let (rest, effect) = text.split_once(':').unwrap();
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint { key: key.into(), value: value.into(), effect: Effect::from_name(effect), ..Taint::default() }
}

fn toleration(effect: &str, key: &str, operator: &str, value: &str) -> Toleration {
    Toleration {
        key: key.into(),
        operator: match operator {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            other => TolerationOperator::Unknown(other.into()),
        },
        value: value.into(),
        effect: (!effect.is_empty()).then(|| Effect::from_name(effect)),
        seconds: None,
    }
}

#[test]
fn who_tolerates_what() {
    for (effect, key, operator, value, text, expected) in [
        ("NoSchedule", "foo", "Exists", "", "foo:NoSchedule", true),
        ("NoSchedule", "foo", "Exists", "", "foo=bar:NoSchedule", true),
        ("NoSchedule", "", "Exists", "", "foo=bar:NoSchedule", true),
        ("NoSchedule", "foo", "Equal", "bar", "foo=bar:NoSchedule", true),
        ("NoSchedule", "foo", "Equal", "v1", "foo=v2:NoSchedule", false),
        ("NoSchedule", "foo", "Equal", "bar", "foo=bar:NoExecute", false),
        ("NoExecute", "foo", "Equal", "bar", "foo=bar:NoSchedule", false),
        ("NoSchedule", "foo", "Exists", "", "other:NoSchedule", false),
        ("", "foo", "Exists", "", "foo=x:None", true),
        ("", "foo", "Exists", "", "foo=x:NoSchedule", true),
        ("", "foo", "Exists", "", "foo=x:NoExecute", true),
        ("", "foo", "Exists", "", "foo=x:Newer", true),
        ("", "", "Exists", "", "any=thing:NoExecute", true),
        ("", "", "Equal", "", "any:NoExecute", true),
        ("", "", "Equal", "", "any=thing:NoExecute", false),
        ("", "", "", "", "any:NoSchedule", true),
        ("NoExecute", "", "", "x", "any=x:NoExecute", true),
        ("NoExecute", "", "", "x", "any=x:NoSchedule", false),
        ("Newer", "foo", "Exists", "", "foo:Newer", true),
        ("Newer", "foo", "Exists", "", "foo:NoExecute", false),
        ("", "", "Newer", "", "any:NoExecute", false),
        ("NoExecute", "foo", "Newer", "x", "foo=x:NoExecute", false),
    ] {
        let toleration = toleration(effect, key, operator, value);
        assert_eq!(tolerates(&toleration, &taint(text)), expected, "{toleration:?} of {text}");
    }
}

#[test]
fn how_long_does_not_matter_to_matching() {
    for seconds in [None, Some(0), Some(-5), Some(i64::MAX)] {
        let toleration = Toleration { seconds, ..toleration("", "", "Exists", "") };
        assert!(tolerates(&toleration, &taint("foo:NoExecute")));
    }
}

#[test]
fn what_an_effect_does() {
    for (name, blocks, evicts) in [
        ("None", false, false),
        ("NoSchedule", true, false),
        ("NoExecute", true, true),
        ("Newer", false, false),
    ] {
        let effect = Effect::from_name(name);
        assert_eq!((effect.blocks_allocation(), effect.evicts()), (blocks, evicts), "{name}");
        assert_eq!(effect.name(), name);
    }
}

#[test]
fn written_as_kubectl_writes() {
    for text in ["foo=bar:NoExecute", "foo:NoSchedule"] {
        assert_eq!(taint(text).to_string(), text);
    }
    let no_effect = |value: &str| Taint {
        key: "foo".into(),
        value: value.into(),
        effect: Effect::Unknown("".into()),
        ..Taint::default()
    };
    assert_eq!(no_effect("bar").to_string(), "foo=bar:");
    assert_eq!(no_effect("").to_string(), "foo");
}
