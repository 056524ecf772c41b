//! One request, and what can become of it.

use http::{Method, Request, header};
use lazaret_runtime::{Client, RequestError, Resource};
use serde::Deserialize;
use serde_json::Value;

use super::served::{Served, Version};
use crate::Error;

/// As which field manager this command writes.
pub(crate) const MANAGER: &str = "kubectl-device";

/// `--dry-run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DryRun {
    /// Do it.
    #[default]
    None,
    /// Print what would be sent.
    Client,
    /// Let the server check it and keep nothing.
    Server,
}

impl DryRun {
    /// The suffix of a line about a change, as kubectl prints it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }

    fn query(self) -> &'static str {
        match self {
            Self::None | Self::Client => "",
            Self::Server => "&dryRun=All",
        }
    }
}

/// The API server, in this process or far away.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) client: Client,
}

/// For what a request is: errors are about this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose<'a> {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'a Resource,
    pub(crate) name: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
}

impl Api {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { client: Client::new(client) }
    }

    pub(crate) async fn served(&self) -> Result<Served, Error> {
        Served::discover(self).await
    }

    /// Name and version of the server, and the release as which it behaves.
    pub(crate) async fn version(&self) -> Result<Version, Error> {
        Ok(Version::of(&self.get_path("/version", "read the server's version").await?))
    }

    /// Reads what is no object.
    pub(crate) async fn get_path(&self, path: &str, action: &str) -> Result<Value, Error> {
        let body = self.send(Method::GET, path, "", String::new()).await.map_err(|error| {
            failure(action, error, |code, body| match code {
                404 => Error::NotFound { what: path.to_owned() },
                _ => refusal(action, code, body),
            })
        })?;
        parse(action, &body)
    }

    /// Reads an object.
    pub(crate) async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Value, Error> {
        let purpose = Purpose { verb: "get", resource, name };
        let body =
            self.ask(Method::GET, &resource.path(namespace, name, ""), "", String::new(), purpose).await?;
        parse(&purpose.action(), &body)
    }

    /// Makes an object; what came of it.
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
        dry_run: DryRun,
    ) -> Result<Value, Error> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let purpose = Purpose { verb: "create", resource, name };
        let path = format!(
            "{}?fieldManager={MANAGER}&fieldValidation=Strict{}",
            resource.path(namespace, "", ""),
            dry_run.query()
        );
        let body = self.ask(Method::POST, &path, "application/json", object.to_string(), purpose).await?;
        parse(&purpose.action(), &body)
    }

    /// Merges `patch` into an object. The precondition, a UID or a resource version, is in the patch.
    pub(crate) async fn patch(
        &self,
        resource: &Resource,
        name: &str,
        patch: &Value,
        dry_run: DryRun,
    ) -> Result<Value, Error> {
        let purpose = Purpose { verb: "patch", resource, name };
        let path = format!(
            "{}?fieldManager={MANAGER}&fieldValidation=Strict{}",
            resource.path("", name, ""),
            dry_run.query()
        );
        let body = self
            .ask(Method::PATCH, &path, "application/merge-patch+json", patch.to_string(), purpose)
            .await?;
        parse(&purpose.action(), &body)
    }

    /// Deletes the incarnation `uid` of an object; that there is none is as good.
    pub(crate) async fn delete(
        &self,
        resource: &Resource,
        name: &str,
        uid: &str,
        dry_run: DryRun,
    ) -> Result<(), Error> {
        let purpose = Purpose { verb: "delete", resource, name };
        let path = format!("{}?fieldManager={MANAGER}{}", resource.path("", name, ""), dry_run.query());
        let options =
            serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        let sent = self.ask(Method::DELETE, &path, "application/json", options.to_string(), purpose).await;
        match sent {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request about objects and gives the body of a good answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
        purpose: Purpose<'_>,
    ) -> Result<String, Error> {
        self.send(method, path, content_type, body).await.map_err(|error| purpose.failure(error))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<String, RequestError> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(body.into()).map_err(|error| RequestError::Failed(error.to_string()))?;
        let bytes = self.client.request(request).await?;
        String::from_utf8(bytes.into())
            .map_err(|_| RequestError::Unreadable("the answer is not UTF-8".to_owned()))
    }
}

/// The error of an action. `refused` makes it from the status code and the body where the server refused.
fn failure(action: &str, error: RequestError, refused: impl FnOnce(u16, &str) -> Error) -> Error {
    let (action, cause) = (action.to_owned(), error.to_string());
    match error {
        RequestError::Refused(code, body) => refused(code, &String::from_utf8_lossy(&body)),
        RequestError::Unreadable(_) | RequestError::TooLarge(_) => Error::Unreadable { what: action, cause },
        RequestError::Failed(_) | RequestError::NotLeading => Error::Unreachable { action, cause },
    }
}

impl Purpose<'_> {
    fn action(&self) -> String {
        format!("{} {} {}", self.verb, self.resource.plural, self.name).trim_end().to_owned()
    }

    pub(crate) fn failure(&self, error: RequestError) -> Error {
        failure(&self.action(), error, |code, body| self.refusal(code, body))
    }

    fn refusal(&self, code: u16, body: &str) -> Error {
        let message = message_of(body);
        match code {
            403 => Error::Forbidden {
                message,
                verb: self.verb,
                group: self.resource.group.to_owned(),
                resource: self.resource.plural.to_owned(),
            },
            404 if !self.name.is_empty() => {
                Error::NotFound { what: format!("{} {}", self.resource.kind, self.name) }
            }
            404 => Error::NotFound { what: format!("the resource {}", self.resource.plural) },
            _ => refusal(&self.action(), code, body),
        }
    }
}

fn refusal(action: &str, code: u16, body: &str) -> Error {
    let (action, message) = (action.to_owned(), message_of(body));
    match code {
        401 => Error::Unauthorized { action, message },
        404 => Error::NotFound { what: action },
        409 => Error::Conflict { action, message },
        _ => Error::Refused { action, code, message },
    }
}

fn message_of(body: &str) -> String {
    match serde_json::from_str::<Status>(body) {
        Ok(status) if !status.message.is_empty() => status.message,
        Ok(_) | Err(_) => body.chars().take(512).collect::<String>().trim().to_owned(),
    }
}

fn parse(what: &str, body: &str) -> Result<Value, Error> {
    serde_json::from_str(body)
        .map_err(|error| Error::Unreadable { what: what.to_owned(), cause: error.to_string() })
}
