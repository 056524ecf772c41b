//! Answers for people: JSON with line breaks, for browsers, command-line tools, and requests with `pretty`.

use bytes::Bytes;
use http::{Request, Response, header};

use crate::{Body, query::Query};

/// How the user agents begin that get line breaks unasked, as in Kubernetes.
const FOR_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];
/// An answer that would become longer is sent as it is: deep nesting makes a short text long.
const INDENTED_BYTES_MAX: usize = 16 << 20;
const STEP: &[u8] = b"  ";

/// Whether a person is to read the answer.
pub(crate) fn is_wanted(request: &Request<Bytes>) -> bool {
    let asked = request.uri().query().filter(|query| query.contains("pretty"));
    let asked = asked.map(Query::parse);
    match asked.as_ref().and_then(|query| query.get("pretty")).filter(|said| !said.is_empty()) {
        Some(said) => ["1", "t", "T", "true", "TRUE", "True"].contains(&said),
        None => {
            let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
            agent.is_some_and(|agent| FOR_PEOPLE.iter().any(|name| agent.starts_with(name)))
        }
    }
}

/// The answer with line breaks, if it is JSON and no stream.
pub(crate) fn indent(mut response: Response<Body>) -> Response<Body> {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if let Body::Full(Some(bytes)) = response.body_mut()
        && is_json
        && let Some(text) = indented(bytes)
    {
        *bytes = text.into();
    }
    response
}

/// JSON with a line for each field and item; its order stays as it is.
fn indented(json: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = json.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if quoted {
            text.push(byte);
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                text.push(byte);
                match rest.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        line(&mut text, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(byte);
            }
            b',' => {
                text.push(byte);
                line(&mut text, depth);
            }
            b':' => text.extend_from_slice(b": "),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                quoted = byte == b'"';
                text.push(byte);
            }
        }
        if text.len() > INDENTED_BYTES_MAX {
            return None;
        }
    }
    Some(text)
}

fn line(text: &mut Vec<u8>, depth: usize) {
    text.push(b'\n');
    (0..depth).for_each(|_| text.extend_from_slice(STEP));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gets_line_breaks_and_keeps_its_order() {
        let plain = r#"{"b":{"x":[1,"a,\"{b",{}],"e":[]},"a":true}"#;
        let wanted = "{\n  \"b\": {\n    \"x\": [\n      1,\n      \"a,\\\"{b\",\n      {}\n    ],\n    \"e\": []\n  },\n  \"a\": true\n}";
        let made = indented(plain.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(made.clone()).unwrap(), wanted);
        assert_eq!(indented(&made).unwrap(), made, "twice is once");
    }

    #[test]
    fn deep_nesting_does_not_fill_the_memory() {
        let deep = ["[1,".repeat(20_000), "1".to_owned(), "]".repeat(20_000)].concat();
        assert_eq!(indented(deep.as_bytes()), None);
    }

    #[test]
    fn people_are_told_from_programs() {
        let wanted = |query: &str, agent: &str| {
            let request = Request::builder().uri(format!("/api{query}")).header("user-agent", agent);
            is_wanted(&request.body(Bytes::new()).unwrap())
        };
        assert!(
            wanted("", "curl/8.5.0") && wanted("", "Mozilla/5.0 (X11)") && wanted("?pretty=true", "kubectl")
        );
        assert!(
            !wanted("?pretty=false", "curl/8.5.0")
                && !wanted("", "kubectl/v1.37.1")
                && !wanted("?x=pretty", "y")
        );
    }
}
