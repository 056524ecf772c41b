//! Label and field selectors.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_kinds::{FieldRequirement, Kind};

use crate::ApiError;

/// Bound on the requirements of one selector; no client comes near.
const REQUIREMENTS_MAX: usize = 1_000;

/// Which objects of a collection are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = labels.map(parse_labels).transpose()?.unwrap_or_default();
        let fields = fields.map(parse_fields).transpose()?.unwrap_or_default();
        for requirement in &fields {
            let known = matches!(requirement.field.as_str(), "metadata.name" | "metadata.namespace")
                || kind.rules.select(&Value::Null, &requirement.field).is_some();
            if !known {
                return Err(ApiError::bad_request(format!(
                    "{:?} is not a known field selector: field label not supported: {}",
                    requirement.field, requirement.field
                )));
            }
        }
        Ok(Self { labels, fields })
    }

    /// The required and excluded values of fields.
    pub(crate) fn fields(&self) -> &[FieldRequirement] {
        &self.fields
    }

    /// Nothing is left out.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The name that every selected object has.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        let named = self.fields.iter().find(|found| found.field == "metadata.name" && found.equal)?;
        Some(named.value.as_str())
    }

    /// Narrowed to the object of a name, which must not contradict what is selected.
    pub(crate) fn with_name(mut self, name: &str) -> Result<Self, ApiError> {
        if self
            .fields
            .iter()
            .any(|found| found.field == "metadata.name" && found.equal && found.value != name)
        {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        self.fields.push(FieldRequirement { field: "metadata.name".into(), value: name.into(), equal: true });
        Ok(self)
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.fields.iter().all(|requirement| {
                let found = match requirement.field.as_str() {
                    "metadata.name" => object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    "metadata.namespace" => {
                        object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
                    }
                    field => kind.rules.select(object, field).unwrap_or_default(),
                };
                (found == requirement.value) == requirement.equal
            })
    }
}

impl LabelRequirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Greater(than) => {
                value.and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value > *than)
            }
            Test::Less(than) => {
                value.and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value < *than)
            }
        }
    }
}

fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, ApiError> {
    let wrong =
        |why: String| ApiError::bad_request(format!("unable to parse label selector {text:?}: {why}"));
    let mut requirements = Vec::new();
    for part in split_outside_parentheses(text) {
        let part = part.trim();
        if part.is_empty() {
            if text.trim().is_empty() {
                continue;
            }
            return Err(wrong("a requirement is empty".into()));
        }
        requirements.push(parse_label(part).map_err(wrong)?);
        if requirements.len() > REQUIREMENTS_MAX {
            return Err(wrong(format!("more than {REQUIREMENTS_MAX} requirements")));
        }
    }
    Ok(requirements)
}

fn parse_label(part: &str) -> Result<LabelRequirement, String> {
    let key_end = part
        .find(|c: char| c.is_whitespace() || "=!<>(".contains(c) && !part.starts_with(c))
        .unwrap_or(part.len());
    if let Some(key) = part.strip_prefix('!') {
        return Ok(LabelRequirement { key: label_key(key.trim())?, test: Test::Absent });
    }
    let (key, rest) = part.split_at(key_end);
    let key = label_key(key)?;
    let rest = rest.trim();
    let test = if rest.is_empty() {
        Test::Exists
    } else if let Some(value) = rest.strip_prefix("!=") {
        Test::NotIn(BTreeSet::from([label_value(value)?]))
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        Test::In(BTreeSet::from([label_value(value)?]))
    } else if let Some(value) = rest.strip_prefix('>') {
        Test::Greater(number(value)?)
    } else if let Some(value) = rest.strip_prefix('<') {
        Test::Less(number(value)?)
    } else if let Some(list) = rest.strip_prefix("notin") {
        Test::NotIn(value_list(list)?)
    } else if let Some(list) = rest.strip_prefix("in") {
        Test::In(value_list(list)?)
    } else {
        return Err(format!("{rest:?} is not an operator: use =, ==, !=, in, notin, < or >"));
    };
    Ok(LabelRequirement { key, test })
}

fn label_key(key: &str) -> Result<String, String> {
    let (prefix, name) = key.rsplit_once('/').map_or(("", key), |(prefix, name)| (prefix, name));
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: char| c.is_ascii_alphanumeric();
    let fits = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(inner)
        && name.starts_with(edge)
        && name.ends_with(edge);
    if fits && prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) {
        Ok(key.to_owned())
    } else {
        Err(format!("{key:?} is not a label name"))
    }
}

fn label_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    let edge = |c: char| c.is_ascii_alphanumeric();
    let fits = value.len() <= 63 && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if fits && (value.is_empty() || value.starts_with(edge) && value.ends_with(edge)) {
        Ok(value.to_owned())
    } else {
        Err(format!("{value:?} is not a label value"))
    }
}

fn value_list(text: &str) -> Result<BTreeSet<String>, String> {
    let inner = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("{text:?}: write the values as (a,b)"))?;
    inner.split(',').map(label_value).collect()
}

fn number(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// `a=b,c!=d`; a backslash takes the meaning from a comma, an equals sign or a backslash.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, ApiError> {
    let wrong = |part: &str| {
        ApiError::bad_request(format!(
            "invalid field selector {text:?}: {part:?}: write field=value or field!=value"
        ))
    };
    // A backslash takes the meaning from one of three characters, and stands before nothing else.
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\\' && !matches!(rest.next(), Some('\\' | ',' | '=')) {
            return Err(wrong("a backslash stands before a comma, an equals sign or a backslash"));
        }
    }
    let mut requirements = Vec::new();
    for part in split_unescaped(text).into_iter().filter(|part| !part.is_empty()) {
        let at = part
            .char_indices()
            .find(|(at, c)| *c == '=' && !part[..*at].ends_with('\\'))
            .map(|(at, _)| at)
            .ok_or_else(|| wrong(&part))?;
        let (field, value) = (&part[..at], &part[at + 1..]);
        let (field, equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
        let value = value.strip_prefix('=').unwrap_or(value);
        requirements.push(FieldRequirement { field: field.to_owned(), value: unescape(value), equal });
        if requirements.len() > REQUIREMENTS_MAX {
            return Err(wrong("too many requirements"));
        }
    }
    Ok(requirements)
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        let last = parts.len() - 1;
        match c {
            '\\' => {
                parts[last].push(c);
                parts[last].extend(characters.next());
            }
            ',' => parts.push(String::new()),
            _ => parts[last].push(c),
        }
    }
    parts
}

fn unescape(text: &str) -> String {
    let mut result = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        result.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    fn matches(labels: &str, object: &Value) -> Result<bool, u16> {
        let pods = lazaret_kinds::find("", "pods").unwrap();
        Selector::parse(pods, Some(labels), None)
            .map(|selector| selector.matches(pods, object))
            .map_err(|error| error.code)
    }

    #[test]
    fn label_selectors_follow_their_grammar() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "1", "a.b/c": "x"}}});
        for (selector, expected) in [
            ("", Ok(true)),
            ("app", Ok(true)),
            ("!app", Ok(false)),
            ("!gone", Ok(true)),
            ("app=web", Ok(true)),
            ("app==web", Ok(true)),
            ("app = web , tier", Ok(true)),
            ("app!=web", Ok(false)),
            ("gone!=x", Ok(true)),
            ("app in (db, web)", Ok(true)),
            ("app notin (db,web)", Ok(false)),
            ("gone notin (a)", Ok(true)),
            ("gone in (a)", Ok(false)),
            ("tier>0", Ok(true)),
            ("tier<1", Ok(false)),
            ("a.b/c=x", Ok(true)),
            ("app in db", Err(400)),
            ("=x", Err(400)),
            ("app,,tier", Err(400)),
            ("tier>x", Err(400)),
            ("app=a b", Err(400)),
        ] {
            assert_eq!(matches(selector, &object), expected, "{selector}");
        }
    }

    #[test]
    fn field_selectors_know_empty_values_and_escapes() {
        let pods = lazaret_kinds::find("", "pods").unwrap();
        let object = json!({"metadata": {"name": "a,b", "namespace": "n"}});
        let select = |text: &str| {
            Selector::parse(pods, None, Some(text)).map(|s| s.matches(pods, &object)).map_err(|e| e.code)
        };
        assert_eq!(select(r"metadata.name=a\,b,metadata.namespace==n"), Ok(true));
        assert_eq!(select("metadata.namespace!=n"), Ok(false));
        assert_eq!(select("spec.unknown=x"), Err(400));
        assert_eq!(select("metadata.name"), Err(400));
        assert_eq!(select(r"metadata.name=a\"), Err(400));
        assert_eq!(select(r"metadata.name=\a"), Err(400));
    }
}
