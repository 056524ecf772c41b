//! JSON that is written field by field, without a tree of it.

use serde_json::Value;

/// An object that is being written.
pub(super) struct JsonText {
    text: Vec<u8>,
    is_first: bool,
}

impl JsonText {
    /// An object without fields.
    pub(super) fn new() -> Self {
        let mut text = Vec::with_capacity(1024);
        text.push(b'{');
        Self { text, is_first: true }
    }

    fn name(&mut self, name: &str) {
        if !core::mem::replace(&mut self.is_first, false) {
            self.text.push(b',');
        }
        self.string(name);
        self.text.push(b':');
    }

    fn string(&mut self, string: &str) {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if string.bytes().all(is_plain) {
            self.text.push(b'"');
            self.text.extend_from_slice(string.as_bytes());
            self.text.push(b'"');
        } else {
            self.text.extend_from_slice(Value::from(string).to_string().as_bytes());
        }
    }

    /// A field that is a string.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    /// A field whose value is JSON already.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.text.extend_from_slice(json.as_bytes());
    }

    /// A field with any value.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        self.raw(name, &value.to_string());
    }

    /// A field that is an object, to which the fields belong that follow.
    pub(super) fn open(&mut self, name: &str) {
        self.raw(name, "{");
        self.is_first = true;
    }

    /// The object that was opened last is complete.
    pub(super) fn close(&mut self) {
        self.text.push(b'}');
        self.is_first = false;
    }

    /// A field that is a list of one object, to which the fields belong that follow.
    pub(super) fn open_list(&mut self, name: &str) {
        self.raw(name, "[{");
        self.is_first = true;
    }

    /// That list is complete.
    pub(super) fn close_list(&mut self) {
        self.close();
        self.text.push(b']');
    }

    /// The text of the whole.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.close();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_string_is_written_as_a_tree_is() {
        let mut text = JsonText::new();
        let odd = "a \"quoted\" \\ line\n\u{1}é";
        text.open("empty");
        text.close();
        text.open_list("list");
        text.field(odd, odd);
        text.raw("number", "1");
        text.close_list();
        text.value("value", &json!({"a": [null]}));
        let wanted = json!({"empty": {}, "list": [{odd: odd, "number": 1}], "value": {"a": [null]}});
        assert_eq!(serde_json::from_slice::<Value>(&text.end()).expect("JSON"), wanted);
    }
}
