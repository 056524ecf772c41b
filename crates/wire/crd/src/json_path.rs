//! Paths into an object, in the part of JSONPath that definitions use: fields, indices, `*`, and `[?(@.type=="Ready")]`.

use lazaret_json::Value;

/// Bound on the steps of a path; no object is that deep.
const STEPS_MAX: usize = 64;

/// A path into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items whose field, by this path, compares so with this value.
    Where(Vec<String>, Compare, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    NotEqual,
}

impl JsonPath {
    /// Reads `.spec.replicas` and the like.
    ///
    /// # Errors
    /// The part that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.as_bytes()[0] {
                b'.' if rest.starts_with(".[") => {
                    rest = &rest[1..];
                    continue;
                }
                b'.' => field(&rest[1..])?,
                b'[' => bracket(&rest[1..])?,
                _ if steps.is_empty() => return Err(format!("{text:?} must start with '.'")),
                _ => return Err(format!("{rest:?} is not understood")),
            };
            steps.push(step);
            rest = after;
            if steps.len() > STEPS_MAX {
                return Err(format!("more than {STEPS_MAX} steps"));
            }
        }
        Ok(Self { steps })
    }

    /// The path as plain fields, if it is one.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                Step::Index(_) | Step::All | Step::Where(..) => None,
            })
            .collect()
    }

    /// The first value that it leads to.
    #[must_use]
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(&self.steps, object)
    }

    /// Sets the value that a path of plain fields leads to, making what is missing on the way.
    pub fn set(&self, object: &mut Value, value: Value) {
        let mut place = object;
        for name in self.fields().into_iter().flatten() {
            if !place.is_object() {
                *place = Value::Object(lazaret_json::Map::new());
            }
            place = &mut place[name];
        }
        *place = value;
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => find(rest, value.get(name)?),
        Step::Index(at) => {
            let items = value.as_array()?;
            let at = if *at < 0 { *at + i64::try_from(items.len()).ok()? } else { *at };
            find(rest, items.get(usize::try_from(at).ok()?)?)
        }
        Step::All => match value {
            Value::Array(items) => items.iter().find_map(|item| find(rest, item)),
            Value::Object(map) => map.values().find_map(|item| find(rest, item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Encoded(_) => None,
        },
        Step::Where(path, compare, wanted) => {
            let holds = |item: &&Value| {
                let found = path.iter().try_fold(*item, |value, name| value.get(name));
                match compare {
                    Compare::Equal => found == Some(wanted),
                    Compare::NotEqual => found.is_some_and(|found| found != wanted),
                }
            };
            value.as_array()?.iter().filter(holds).find_map(|item| find(rest, item))
        }
    }
}

/// A field up to the next step; a dot in its name is written `\.`.
fn field(text: &str) -> Result<(Step, &str), String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            c if c.is_whitespace() || "{}()'\"".contains(c) => {
                return Err(format!("unexpected {c:?} in {text:?}"));
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => Err("a name is missing after '.'".into()),
        "*" => Ok((Step::All, &text[end..])),
        _ => Ok((Step::Field(name), &text[end..])),
    }
}

/// The step in brackets.
fn bracket(text: &str) -> Result<(Step, &str), String> {
    if let Some(rest) = text.strip_prefix("?(") {
        let end = rest.find(")]").ok_or("a filter is not closed with ')]'")?;
        return Ok((filter(&rest[..end])?, &rest[end + 2..]));
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let inner = &text[1..];
        let end = inner.find([quote]).ok_or("a quoted name is not closed")?;
        let after = inner[end + 1..].strip_prefix(']').ok_or("']' is missing")?;
        return Ok((Step::Field(inner[..end].to_owned()), after));
    }
    let end = text.find(']').ok_or("']' is missing")?;
    let step = match text[..end].trim() {
        "*" => Step::All,
        number => Step::Index(number.parse().map_err(|_| format!("[{number}] is not understood"))?),
    };
    Ok((step, &text[end + 1..]))
}

/// `@.type=="Ready"`.
fn filter(text: &str) -> Result<Step, String> {
    let (left, compare, right) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((left, right)), _) => (left, Compare::Equal, right),
        (None, Some((left, right))) => (left, Compare::NotEqual, right),
        (None, None) => return Err(format!("the filter {text:?} compares nothing with == or !=")),
    };
    let path = left.trim().strip_prefix("@.").ok_or_else(|| format!("{left:?} must start with '@.'"))?;
    let right = right.trim();
    let quoted = |quote: char| right.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    let wanted = match quoted('"').or_else(|| quoted('\'')) {
        Some(text) => text.into(),
        None => serde_json::from_str(right).map_err(|_| format!("{right:?} is not a value"))?,
    };
    Ok(Step::Where(path.split('.').map(str::to_owned).collect(), compare, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "dotted"}},
            "spec": {"replicas": 3, "list": [{"n": 1}, {"n": 2}]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.replicas", json!(3)),
            (r".metadata.annotations.a\.b/c", json!("dotted")),
            (".metadata.annotations['a.b/c']", json!("dotted")),
            (".spec.list[1].n", json!(2)),
            (".spec.list[-1].n", json!(2)),
            (".spec.list[*].n", json!(1)),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (r".status.conditions[?(@.type!='Ready')].status", json!("False")),
            (".status.none", Value::Null),
            (".spec.list[7]", Value::Null),
        ] {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(found.first(&object).cloned().unwrap_or_default(), expected, "{path}");
        }
        for path in ["spec", ".", ".a[", ".a[b]", ".a[?(@.x)]", ".a[?(x==1)]", ".a b", ".a['b"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_value_is_set_where_a_path_leads() {
        let mut object = json!({"spec": {"a": 1}});
        JsonPath::parse(".spec.scaling.replicas").unwrap().set(&mut object, json!(5));
        assert_eq!(object, json!({"spec": {"a": 1, "scaling": {"replicas": 5}}}));
    }
}
