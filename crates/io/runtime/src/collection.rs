//! Collections as they are read: lists page by page, watches event by event.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Client, RequestError,
    call::{Body, whole},
    lines::{Line, Lines},
};

/// Objects of one page of a list. Of large ones a page holds fewer.
const PAGE: usize = 500;
/// A page with more than this is asked for in parts.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Objects of a list at most, however it is read: a server that goes on and on is not followed.
pub(crate) const LIST_OBJECTS_MAX: usize = 5_000_000;

pub(crate) const TOO_MANY: &str = "the list has more than 5,000,000 objects";

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    #[serde(rename = "continue")]
    more: String,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The JSON of an object as it is now.
    Set(String),
    /// The JSON of a deleted object as it last was.
    Gone(String),
    /// The watch has ended, or its history is gone: list again.
    Over,
}

/// An open watch.
pub struct Watch {
    body: Body,
    lines: Lines,
    told: VecDeque<Change>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Client {
    /// Hands the JSON of each object of the collection at `path` to `visit`, and gives the resource version of the list. `query` is empty or
    /// begins with `&`.
    ///
    /// # Errors
    /// The first page that cannot be read, one without objects that is not the last, or the one with which there are more than 5,000,000 objects. Objects
    /// of the pages before it were visited.
    pub async fn list(
        &self,
        path: &str,
        query: &str,
        mut visit: impl FnMut(&str),
    ) -> Result<String, RequestError> {
        let (mut more, mut limit, mut objects) = (String::new(), PAGE, 0);
        loop {
            let body = self.open(get(&format!("{path}?limit={limit}&continue={more}{query}"))?).await?;
            let bytes = match whole(body, PAGE_BYTES_MAX).await {
                Err(RequestError::TooLarge(_)) if limit > 1 => {
                    limit = limit.div_ceil(8);
                    continue;
                }
                read => read?,
            };
            let page: Page<'_> = serde_json::from_slice(&bytes).map_err(RequestError::unreadable)?;
            objects += page.items.len();
            if objects > LIST_OBJECTS_MAX {
                return Err(RequestError::unreadable(TOO_MANY));
            }
            page.items.iter().for_each(|item| visit(item.get()));
            if page.metadata.more.is_empty() {
                return Ok(page.metadata.resource_version);
            }
            // Servers fill each page; this one could go on like that for ever.
            if page.items.is_empty() {
                return Err(RequestError::unreadable(
                    "a page of the list has no objects and is not the last",
                ));
            }
            more = escape_query(&page.metadata.more);
        }
    }

    /// Opens the watch at this path and query.
    ///
    /// # Errors
    /// When the server refuses it or cannot be reached.
    pub async fn watch(&self, uri: &str) -> Result<Watch, RequestError> {
        let body = self.open(get(uri)?).await?;
        Ok(Watch { body, lines: Lines::default(), told: VecDeque::new() })
    }
}

impl Watch {
    /// The next change. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// When an event is too large or cannot be read.
    pub async fn next(&mut self) -> Result<Change, RequestError> {
        let Self { body, lines, told } = self;
        loop {
            if let Some(change) = told.pop_front() {
                return Ok(change);
            }
            // Servers and proxies end watches as they like.
            let Some(Ok(frame)) = body.frame().await else { return Ok(Change::Over) };
            let piece: Bytes = frame.into_data().unwrap_or_default();
            lines.add(&piece, |line| {
                told.extend(change(&line)?);
                Ok::<(), RequestError>(())
            })?;
        }
    }
}

fn change(line: &Line<'_>) -> Result<Option<Change>, RequestError> {
    let line = match line {
        Line::Whole(line) => *line,
        Line::TooLong(bytes, _) => return Err(RequestError::TooLarge(*bytes)),
    };
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let event = Event::read(line).map_err(RequestError::unreadable)?;
    let json = || String::from_utf8(event.object.to_vec()).map_err(RequestError::unreadable);
    Ok(match event.kind {
        "ADDED" | "MODIFIED" => Some(Change::Set(json()?)),
        "DELETED" => Some(Change::Gone(json()?)),
        "ERROR" => Some(Change::Over),
        _ => None,
    })
}

/// A line of a watch.
#[derive(Debug, PartialEq)]
pub(crate) struct Event<'a> {
    pub(crate) kind: &'a str,
    pub(crate) object: &'a [u8],
}

impl<'a> Event<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Any<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        if let Some(event) = Self::usual(line) {
            return Ok(event);
        }
        let any: Any<'_> = serde_json::from_slice(line)?;
        Ok(Self { kind: any.kind, object: any.object.get().as_bytes() })
    }

    /// As every server writes it, without looking into the object: whoever reads that finds out whether it is whole.
    fn usual(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"type":""#)?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        let object = rest[end..].strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
        Some(Self { kind: std::str::from_utf8(&rest[..end]).ok()?, object })
    }
}

/// A request for JSON.
pub(crate) fn get(uri: &str) -> Result<Request<Bytes>, RequestError> {
    Request::builder()
        .uri(uri)
        .header(http::header::ACCEPT, "application/json")
        .body(Bytes::new())
        .map_err(|error| RequestError::Failed(error.to_string()))
}

/// Escapes what a query must not hold.
#[must_use]
pub fn escape_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    #[test]
    fn an_event_is_read_however_it_is_written() {
        let object: &[u8] = br#"{"metadata":{"name":"}"}}"#;
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"}"}}}"#,
            r#"{ "type": "ADDED", "object": {"metadata":{"name":"}"}} }"#,
            r#"{"object":{"metadata":{"name":"}"}},"type":"ADDED"}"#,
        ] {
            assert_eq!(Event::read(line.as_bytes()).unwrap(), Event { kind: "ADDED", object });
        }
        assert!(Event::read(b"{}").is_err());
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(escape_query("a=b,c in (d)"), "a%3Db%2Cc%20in%20%28d%29");
    }

    #[tokio::test]
    async fn a_list_is_read_page_by_page_and_a_refusal_keeps_its_code() {
        let client = Client::direct(|request: Request<Bytes>| async move {
            let query = request.uri().query().unwrap_or_default();
            let (code, body) = match query {
                "limit=500&continue=&x=y" => {
                    (200, r#"{"metadata":{"continue":"a/b"},"items":[{"n":1},{"n":2}]}"#)
                }
                "limit=500&continue=a%2Fb&x=y" => {
                    (200, r#"{"metadata":{"resourceVersion":"7"},"items":[{"n":3}]}"#)
                }
                _ => (410, "too old"),
            };
            let mut answer = Response::new(body.to_owned());
            *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
            answer
        });
        let mut visited = Vec::new();
        let version = client.list("/things", "&x=y", |json| visited.push(json.to_owned())).await;
        assert_eq!(version, Ok("7".to_owned()));
        assert_eq!(visited, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
        let refused = client.list("/things", "", |_| {}).await;
        assert_eq!(refused, Err(RequestError::Refused(410, "too old".into())));
    }

    #[tokio::test]
    async fn a_list_that_does_not_end_is_given_up() {
        let empty = r#"{"metadata":{"continue":"a"},"items":[]}"#.to_owned();
        let page = format!(r#"{{"metadata":{{"continue":"a"}},"items":[{}0]}}"#, "0,".repeat(999_999));
        for (page, pages, why) in
            [(empty, 0, "a page of the list has no objects and is not the last"), (page, 5, TOO_MANY)]
        {
            let body = Bytes::from(page);
            let client = Client::direct(move |_: Request<Bytes>| {
                let body = body.clone();
                async move { Response::new(http_body_util::Full::new(body)) }
            });
            let mut visited = 0;
            let listed = client.list("/things", "", |_| visited += 1).await;
            assert_eq!((listed, visited), (Err(RequestError::unreadable(why)), pages * 1_000_000));
        }
    }

    #[tokio::test]
    async fn a_watch_tells_of_objects_until_it_is_over() {
        let events = [
            r#"{"type":"ADDED","object":{"n":1}}"#,
            "",
            r#"{"type":"BOOKMARK","object":{"n":2}}"#,
            r#"{"type":"DELETED","object":{"n":3}}"#,
            r#"{"type":"ERROR","object":{"code":410}}"#,
            "",
        ];
        let client = Client::direct(move |_: Request<Bytes>| async move { Response::new(events.join("\n")) });
        let mut watch = client.watch("/things?watch=true").await.unwrap();
        for told in [
            Change::Set(r#"{"n":1}"#.to_owned()),
            Change::Gone(r#"{"n":3}"#.to_owned()),
            Change::Over,
            Change::Over,
        ] {
            assert_eq!(watch.next().await, Ok(told));
        }
    }
}
