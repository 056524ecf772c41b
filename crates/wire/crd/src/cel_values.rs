//! Objects as rules written in CEL see them: the schema as a shape, the JSON as values of that shape.

use lazaret_cel::{Datum, Shape};
use lazaret_fields::value::{entries, has, is_true, text};
use lazaret_json::Value;

/// Words that CEL keeps for itself; a field of such a name is spelt `__word__`.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];
/// Of the metadata of an object only these are to be seen.
const METADATA: &[&str] = &["generateName", "name"];

/// The shape of what a schema describes. An object has a type and a name whether its schema says so or not.
pub(crate) fn shape(schema: &Value, is_object: bool) -> Shape {
    if is_true(schema, "x-kubernetes-int-or-string") {
        return Shape::any();
    }
    match (text(schema, "type"), text(schema, "format")) {
        ("object", _) => object_shape(schema, is_object || is_true(schema, "x-kubernetes-embedded-resource")),
        ("array", _) => Shape::list(shape(&schema["items"], false)),
        ("string", "date" | "date-time") => Shape::timestamp(),
        ("string", "duration") => Shape::duration(),
        ("string", _) => Shape::text(),
        ("integer", _) => Shape::int(),
        ("number", _) => Shape::double(),
        ("boolean", _) => Shape::bool(),
        _ => Shape::any(),
    }
}

/// Whether an object is nothing but a map of whatever there is. Beside named fields such a map is not to be seen.
fn is_any_map(schema: &Value) -> bool {
    is_true(schema, "additionalProperties") && entries(schema, "properties").next().is_none()
}

fn object_shape(schema: &Value, is_object: bool) -> Shape {
    let each = &schema["additionalProperties"];
    if is_any_map(schema) {
        return Shape::map(Shape::any());
    }
    if each.is_object() {
        return Shape::map(shape(each, false));
    }
    let said = entries(schema, "properties")
        .filter(|(name, _)| !is_object || *name != "metadata")
        .flat_map(|(name, inner)| spellings(name).map(move |spelt| (spelt.into(), shape(inner, false))));
    let mut fields: Vec<_> = said.collect();
    if is_object {
        let texts =
            |names: &[&str]| names.iter().map(|name| ((*name).into(), Shape::text())).collect::<Vec<_>>();
        fields.extend(texts(&["apiVersion", "kind"]));
        fields.push(("metadata".into(), Shape::object(texts(METADATA))));
    }
    Shape::object(fields)
}

/// A value of which no schema is known: objects are maps, and their fields have their own names.
pub fn plain_datum(value: &Value) -> Datum {
    datum(&Value::Null, value, false)
}

/// A value as its schema has it.
pub(crate) fn datum(schema: &Value, value: &Value, is_object: bool) -> Datum {
    match value {
        Value::Null | Value::Encoded(_) => Datum::null(),
        Value::Bool(value) => Datum::bool(*value),
        Value::Number(number) => {
            let whole = number.as_i64().or_else(|| whole(number.as_f64()?));
            match whole.filter(|_| text(schema, "type") != "number") {
                Some(number) => Datum::int(number),
                None => Datum::double(number.as_f64().unwrap_or_default()),
            }
        }
        Value::String(said) => timed(schema, said).unwrap_or_else(|| Datum::text(said)),
        Value::Array(items) => Datum::list(items.iter().map(|item| datum(&schema["items"], item, false))),
        Value::Object(map) => {
            let is_object = is_object || is_true(schema, "x-kubernetes-embedded-resource");
            let is_map =
                schema["additionalProperties"].is_object() || is_any_map(schema) || !has(schema, "type");
            let visible = map.iter().flat_map(|(name, value)| {
                let (names, seen) = if is_object && name == "metadata" {
                    (vec!["metadata".to_owned()], metadata(value))
                } else if is_map {
                    (vec![name.to_string()], datum(&schema["additionalProperties"], value, false))
                } else {
                    (spellings(name).collect(), datum(&schema["properties"][name], value, false))
                };
                names.into_iter().map(move |name| (name.into(), seen.clone()))
            });
            Datum::map(visible)
        }
    }
}

fn metadata(value: &Value) -> Datum {
    let seen = METADATA.iter().filter(|name| has(value, name));
    Datum::map(seen.map(|name| ((*name).into(), Datum::text(text(value, name)))))
}

fn timed(schema: &Value, said: &str) -> Option<Datum> {
    match text(schema, "format") {
        "date-time" => Datum::timestamp(said),
        "date" => Datum::timestamp(&format!("{said}T00:00:00Z")),
        "duration" => Datum::duration(said),
        _ => None,
    }
}

/// A whole number that was written with a point.
fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked: it has no fraction and fits")]
    let whole = number as i64;
    #[expect(clippy::cast_precision_loss, reason = "compared with where it came from")]
    let same = whole as f64 == number;
    same.then_some(whole)
}

/// Words that the grammar knows wherever they stand.
const LEXICAL: &[&str] = &["false", "in", "null", "true"];

/// How expressions may spell a field. After a dot, most words that CEL keeps for itself can only be names.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    let plain = RESERVED.contains(&name) && !LEXICAL.contains(&name);
    escaped(name).into_iter().chain(plain.then(|| name.to_owned()))
}

/// A field's name as expressions spell it; `None` for one that they cannot.
fn escaped(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let mut spelt = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                spelt.push_str("__underscores__");
            }
            '.' => spelt.push_str("__dot__"),
            '-' => spelt.push_str("__dash__"),
            '/' => spelt.push_str("__slash__"),
            other if other.is_ascii_alphanumeric() || other == '_' => spelt.push(other),
            _ => return None,
        }
    }
    Some(spelt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelt_as_expressions_can() {
        for (name, spelt) in [
            ("plain", Some("plain")),
            ("namespace", Some("__namespace__")),
            ("x-prop", Some("x__dash__prop")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("redact__d", Some("redact__underscores__d")),
            ("1st", None),
            ("a b", None),
        ] {
            assert_eq!(escaped(name).as_deref(), spelt, "{name}");
        }
    }

    #[test]
    fn a_reserved_word_is_also_a_name_after_a_dot() {
        for (name, spelt) in [
            ("namespace", &["__namespace__", "namespace"][..]),
            ("package", &["__package__", "package"]),
            ("in", &["__in__"]),
            ("true", &["__true__"]),
            ("name", &["name"]),
        ] {
            assert_eq!(spellings(name).collect::<Vec<_>>(), spelt);
        }
    }
}
