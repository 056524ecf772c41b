//! Parameters of classes and claims become attributes of claims, and those become environment variables of containers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Attributes that are parameters begin with this.
const PREFIX: &str = "parameter.";
/// Environment variables begin with this.
const VARIABLE: &str = "FABRIC_";
/// Parameters that are passed on. A claim has 10 KiB of them.
const PARAMETERS_MAX: usize = 64;

/// The parameters of the class and of the claim, which wins, as attributes. Values other than text are written as JSON.
pub(crate) fn parameters(class: &str, claim: &str) -> BTreeMap<String, String> {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let both = read(class).into_iter().chain(read(claim));
    let mut attributes = BTreeMap::new();
    for (name, value) in both.filter(|(name, _)| is_name(name)) {
        if attributes.len() < PARAMETERS_MAX {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            attributes.insert(format!("{PREFIX}{name}"), text);
        }
    }
    attributes
}

/// Environment variables for a claim's attributes.
pub(crate) fn environment(attributes: &BTreeMap<String, String>) -> Vec<String> {
    let variable = |(name, value): (&String, &String)| {
        let name = name.strip_prefix(PREFIX).filter(|name| is_name(name))?;
        Some(format!("{VARIABLE}{}={value}", name.to_uppercase().replace('-', "_")))
    };
    attributes.iter().filter_map(variable).collect()
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !name.is_empty() && name.len() <= 63 && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_claim_win_over_those_of_its_class_and_odd_ones_are_left_out() {
        let class = r#"{"speed": "slow", "init": ["a", 1], "a b": 1}"#;
        let attributes = parameters(class, r#"{"speed": "fast", "max-memory": 2}"#);
        assert_eq!(
            environment(&attributes),
            [r#"FABRIC_INIT=["a",1]"#, "FABRIC_MAX_MEMORY=2", "FABRIC_SPEED=fast"]
        );
        assert!(parameters("", "not JSON").is_empty());
        let other = BTreeMap::from([("device".to_owned(), "x".to_owned())]);
        assert!(environment(&other).is_empty(), "attributes that are no parameters");
    }
}
