//! A watch: what changed since a list, one change at a time.

use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    call::{Api, Purpose},
    list::{Item, Scope},
    resource::Resource,
};
use crate::Error;

/// A line of a watch is one object: no object of the API comes near this.
const LINE_BYTES_MAX: usize = 32 << 20;

/// A change of an object.
#[derive(Debug)]
pub(crate) enum Change {
    /// As it is now.
    Set(Item),
    /// As it last was.
    Gone(Item),
    /// The stream is over, or its history is gone: list again.
    Over,
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    resource: Resource,
    body: kube::client::Body,
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no line's end.
    searched: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Api {
    /// Watches what `scope` means from a resource version on.
    pub(crate) async fn watch(
        &self,
        resource: &Resource,
        scope: &Scope,
        resource_version: &str,
    ) -> Result<Watch, Error> {
        let purpose = Purpose { verb: "watch", resource, name: "" };
        let unreachable = |cause: String| Error::Unreachable { action: purpose.action(), cause };
        let path = format!(
            "{}?watch=true&resourceVersion={resource_version}{}",
            resource.path(&scope.namespace, ""),
            scope.query()
        );
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .body(kube::client::Body::empty())
            .map_err(|error| unreachable(error.to_string()))?;
        let response = self.client.send(request).await.map_err(|error| unreachable(error.to_string()))?;
        let code = response.status().as_u16();
        let body = response.into_body();
        if code == 200 {
            return Ok(Watch { resource: *resource, body, buffer: Vec::new(), searched: 0 });
        }
        let bytes = body.collect().await.map_err(|error| unreachable(error.to_string()))?.to_bytes();
        Err(purpose.refusal(code, &String::from_utf8_lossy(&bytes)))
    }
}

impl Watch {
    /// The next change. May be dropped while it waits: nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Change, Error> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched + end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                if let Some(change) = self.understand(&line)? {
                    return Ok(change);
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(self.unreadable(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.buffer.extend_from_slice(&bytes);
                    }
                }
                // Servers and proxies end watches as they like; whoever watches lists again.
                Some(Err(_)) | None => return Ok(Change::Over),
            }
        }
    }

    fn understand(&self, line: &[u8]) -> Result<Option<Change>, Error> {
        let line: Line<'_> =
            serde_json::from_slice(line).map_err(|error| self.unreadable(error.to_string()))?;
        let item = || Item::new(&self.resource, line.object.get());
        Ok(match line.r#type {
            "ADDED" | "MODIFIED" => Some(Change::Set(item())),
            "DELETED" => Some(Change::Gone(item())),
            "ERROR" => Some(Change::Over),
            _ => None,
        })
    }

    fn unreadable(&self, cause: String) -> Error {
        Error::Unreadable { what: format!("watch {}", self.resource.plural), cause }
    }
}
