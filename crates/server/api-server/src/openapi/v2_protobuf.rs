//! The document of version 2 in protobuf, by the messages of `openapi.v2` (gnostic): what older clients ask for and nothing else.

use lazaret_json::Value;

/// Bytes of one message.
#[derive(Default)]
struct Message(Vec<u8>);

const VARINT: u64 = 0;
const BYTES: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let [digit, ..] = (value & 0x7f).to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.0.push(digit);
            }
            self.0.push(digit | 0x80);
        }
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u64, message: &Self) {
        self.bytes(number, &message.0);
    }

    /// A text that is there.
    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u64, list: &Value) {
        for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u64, value: &Value) {
        if value.as_bool() == Some(true) {
            self.varint(number << 3 | VARINT);
            self.varint(1);
        }
    }

    fn number(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_u64() {
            self.varint(number << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A message that holds a value as YAML; JSON is YAML.
    fn any(value: &Value) -> Self {
        let mut any = Self::default();
        any.bytes(2, format!("{value}\n").as_bytes());
        any
    }

    /// A message with a name and a value.
    fn named(name: &str, value: &Self) -> Self {
        let mut named = Self::default();
        named.bytes(1, name.as_bytes());
        named.message(2, value);
        named
    }

    /// A message whose only field is this one.
    fn of(number: u64, content: &Self) -> Self {
        let mut message = Self::default();
        message.message(number, content);
        message
    }

    /// The fields whose names begin with `x-`.
    fn extensions(&mut self, number: u64, object: &Value) {
        for (name, value) in object.as_object().into_iter().flatten() {
            if name.starts_with("x-") {
                self.message(number, &Self::named(name, &Self::any(value)));
            }
        }
    }
}

/// The whole document.
pub(super) fn encoded(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    message.message(2, &info);
    let mut paths = Message::default();
    for (name, item) in document["paths"].as_object().into_iter().flatten() {
        paths.message(2, &Message::named(name, &path_item(item)));
    }
    message.message(8, &paths);
    message.message(9, &schemas(&document["definitions"]));
    message.0
}

/// `Definitions` and `Properties` alike.
fn schemas(object: &Value) -> Message {
    let mut list = Message::default();
    for (name, value) in object.as_object().into_iter().flatten() {
        list.message(1, &Message::named(name, &schema(value)));
    }
    list
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (number, verb) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(described) = item.get(verb) {
            message.message(number, &operation(described));
        }
    }
    parameters(&mut message, 9, &item["parameters"]);
    message
}

fn operation(described: &Value) -> Message {
    let mut message = Message::default();
    message.texts(1, &described["tags"]);
    message.text(5, &described["operationId"]);
    message.texts(6, &described["produces"]);
    message.texts(7, &described["consumes"]);
    parameters(&mut message, 8, &described["parameters"]);
    let mut responses = Message::default();
    for (code, answered) in described["responses"].as_object().into_iter().flatten() {
        let mut response = Message::default();
        response.text(1, &answered["description"]);
        response.message(2, &Message::of(1, &schema(&answered["schema"])));
        responses.message(1, &Message::named(code, &Message::of(1, &response)));
    }
    message.message(9, &responses);
    message.extensions(13, described);
    message
}

fn parameters(message: &mut Message, number: u64, list: &Value) {
    for described in list.as_array().into_iter().flatten() {
        let parameter = match described["in"].as_str() {
            Some("body") => {
                let mut body = Message::default();
                body.text(2, &described["name"]);
                body.text(3, &described["in"]);
                body.flag(4, &described["required"]);
                body.message(5, &schema(&described["schema"]));
                Message::of(1, &body)
            }
            place => {
                let (kind, of_type, of_unique) = if place == Some("path") { (4, 5, 19) } else { (3, 6, 20) };
                let mut other = Message::default();
                other.flag(1, &described["required"]);
                other.text(2, &described["in"]);
                other.text(4, &described["name"]);
                other.text(of_type, &described["type"]);
                other.flag(of_unique, &described["uniqueItems"]);
                Message::of(2, &Message::of(kind, &other))
            }
        };
        message.message(number, &Message::of(1, &parameter));
    }
}

fn schema(described: &Value) -> Message {
    let mut message = Message::default();
    for (number, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        message.text(number, &described[name]);
    }
    if let Some(default) = described.get("default") {
        message.message(5, &Message::any(default));
    }
    let numbers = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, name) in numbers {
        message.number(number, &described[name]);
    }
    message.flag(16, &described["uniqueItems"]);
    message.texts(19, &described["required"]);
    for value in described["enum"].as_array().into_iter().flatten() {
        message.message(20, &Message::any(value));
    }
    if let Some(below) = described.get("additionalProperties") {
        message.message(21, &Message::of(1, &schema(below)));
    }
    if let Some(name) = described["type"].as_str() {
        let mut kind = Message::default();
        kind.bytes(1, name.as_bytes());
        message.message(22, &kind);
    }
    if let Some(below) = described.get("items") {
        message.message(23, &Message::of(1, &schema(below)));
    }
    if let Some(below) = described.get("properties") {
        message.message(25, &schemas(below));
    }
    message.extensions(31, described);
    message
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    #[test]
    fn fields_have_the_numbers_of_gnostic() {
        let described = json!({"type": "string", "minLength": 300, "required": ["a"], "x-a": {"b": 1}});
        let expected = [
            // minLength = 12, required = 19, type = 22 { value = 1 }
            &[0x60, 0xac, 0x02, 0x9a, 0x01, 1, b'a', 0xb2, 0x01, 8, 0x0a, 6][..],
            b"string",
            // vendor_extension = 31 { name = 1, value = 2 { yaml = 2 } }
            &[0xfa, 0x01, 17, 0x0a, 3],
            b"x-a",
            &[0x12, 10, 0x12, 8],
            b"{\"b\":1}\n",
        ];
        assert_eq!(schema(&described).0, expected.concat());
    }
}
