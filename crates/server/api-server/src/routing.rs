//! From a request to its answer: what its path means, who asks, and which part answers.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use lazaret_kinds::{Access, User};

use crate::{
    ApiError, Body, Server,
    access_log::AccessEntry,
    alerts, audit,
    auth::{act_as, attributes::authorize_unknown},
    call::Call,
    discovery, disk, health, input, long,
    metrics::{self, RequestLabels},
    negotiate::{self, Form},
    openapi, panics, pretty, proxy,
    query::Query,
    request::{Path, Verb},
    request_permits::RequestPermits,
    respond::{Answer, failure},
    verbs,
};

/// A request for something that is no object.
struct OtherRequest<'a> {
    method: &'a Method,
    path: &'a str,
    query: &'a str,
}

impl Server {
    /// Answers requests on behalf of `user`, or of whom a request impersonates, one call each: the shortest way to the API from within the process.
    pub fn answering(
        &self,
        user: User,
    ) -> impl Fn(Request<Bytes>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync + 'static
    {
        let (server, user) = (self.clone(), Arc::new(user));
        move |request| {
            let (server, user) = (server.clone(), Arc::clone(&user));
            Box::pin(async move {
                match act_as(&server, request.headers(), user) {
                    Ok(user) => server.handle(&user, request).await,
                    Err(error) => failure(&error),
                }
            })
        }
    }

    /// Answers one request on behalf of `user`.
    pub async fn handle(&self, user: &User, request: Request<Bytes>) -> Response<Body> {
        let mut measured = self.metrics().begin(request.method());
        let entry = AccessEntry::begin(&request);
        let for_people = pretty::is_wanted(&request);
        let response = match panics::caught(self.answer(user, request, &mut measured.subject)).await {
            Ok(Ok(answer)) => answer.into_response(),
            Ok(Err(error)) => failure(&error),
            Err(panic) => {
                self.metrics().request_panicked();
                tracing::error!(panic, user = user.name, "a request panicked");
                failure(&ApiError::internal("the request failed for a reason that is in the server's log"))
            }
        };
        let subject = if entry.is_some() { measured.subject.clone() } else { None };
        let code = response.status().as_u16();
        let took = measured.end(code);
        if let Some(entry) = entry {
            let asked = subject.as_ref().map(|subject| (subject.verb(), subject.resource()));
            entry.answered(&user.name, asked, code, took);
        }
        if for_people { pretty::indent(response) } else { response }
    }

    async fn answer(
        &self,
        user: &User,
        request: Request<Bytes>,
        subject: &mut Option<RequestLabels>,
    ) -> Result<Answer, ApiError> {
        let (parts, body) = request.into_parts();
        if body.len() > input::BODY_BYTES_MAX {
            return Err(ApiError::too_large(format!(
                "the body must not be larger than {} bytes",
                input::BODY_BYTES_MAX
            )));
        }
        let text = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let form = negotiate::accept(text(header::ACCEPT));
        let (target, watched) = match Path::parse(parts.uri.path()) {
            Path::Objects(target) => (target, false),
            Path::Watch(target) => (target, true),
            Path::Other(path) => {
                *subject = Some(RequestLabels::path(&format!("/{path}")));
                if path == disk::COMPACT_PATH && parts.method == Method::POST {
                    self.authorize_path(user, "post", &path)?;
                    return self.compact_store().await;
                }
                if path == audit::PATH && parts.method == Method::GET {
                    let may = |access: Access<'_>| self.may(user, access).is_ok();
                    return audit::page(self.store(), user, &query, may);
                }
                if path == alerts::PATH && parts.method == Method::POST {
                    let sink = self.alerts().ok_or_else(ApiError::no_such_path)?;
                    let may = |access: Access<'_>| self.may(user, access).is_ok();
                    return sink.notify(user, may, body).await;
                }
                let answer = if path == openapi::v2::PATH && parts.method == Method::GET {
                    self.authorize_path(user, "get", &path)?;
                    openapi::v2::answer(self, text(header::ACCEPT)).await?
                } else {
                    let query = parts.uri.query().unwrap_or_default();
                    self.other(user, &OtherRequest { method: &parts.method, path: &path, query }, form)?
                };
                return Ok(answer.not_modified_if(text(header::IF_NONE_MATCH)));
            }
        };
        let mut target = target;
        let rest = proxy::split(&mut target, parts.uri.path());
        let form = form?;
        let verb = match parts.method {
            Method::GET if watched => Verb::Watch,
            _ if watched => return Err(ApiError::method_not_allowed()),
            _ => Verb::of(&parts.method, &target, &query)?,
        };
        let found = self
            .find(&target)
            .filter(|(kind, _)| target.fits(kind.scope) && (!watched || target.subresource.is_empty()));
        let Some((kind, served)) = found else {
            authorize_unknown(self, user, &target, verb)?;
            if proxy::usage::takes(self, &target) && !watched {
                // It waits for nodes.
                if let Some(held) = parts.extensions.get::<RequestPermits>() {
                    held.release();
                }
                return proxy::usage::answer(self, &target, verb, &query).await;
            }
            return Err(ApiError::no_such_path());
        };
        let agent = text(header::USER_AGENT).and_then(|agent| agent.split('/').next()).unwrap_or("unknown");
        let manager = query.get("fieldManager").unwrap_or(agent).to_owned();
        let content_type = text(header::CONTENT_TYPE).map(str::to_owned);
        let held = parts.extensions.get::<RequestPermits>().cloned().unwrap_or_default();
        let call =
            Call { server: self, user, verb, kind, served, target, query, form, manager, content_type, held };
        *subject = Some(call.subject(verb));
        call.authorize(verb)?;
        if proxy::takes(&call) {
            return proxy::answer(&call, verb, proxy::ProxyRequest { parts, body, rest }).await;
        }
        let deprecation = call.kind.rules.deprecation().map(str::to_owned);
        let answer = if long::is_long(&call, verb, &body) {
            long::dispatch(call, verb, body).await?
        } else {
            verbs::dispatch(&call, verb, body).await?
        };
        Ok(answer.warn(deprecation))
    }

    fn other(
        &self,
        user: &User,
        asked: &OtherRequest<'_>,
        form: Result<Form, ApiError>,
    ) -> Result<Answer, ApiError> {
        let OtherRequest { method, path, query } = *asked;
        let verb = method.as_str().to_ascii_lowercase();
        self.authorize_path(user, &verb, path)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        match path.split('/').next().unwrap_or_default() {
            "healthz" | "livez" | "readyz" => {
                let is_admin = self.authorize_path(user, "post", disk::COMPACT_PATH).is_ok();
                health::answer(self, path, query, is_admin)
            }
            "metrics" if path == "metrics" => {
                let customs = self.customs();
                let is_served = |group: &str, plural: &str| customs.have(group, plural);
                let mut text = self.metrics().text(is_served).map_err(ApiError::internal)?;
                if let Some(further) = self.further_metrics() {
                    text.truncate(text.trim_end_matches(metrics::END).len());
                    text.push_str(&further);
                }
                Ok(Answer { content_type: metrics::CONTENT_TYPE, ..Answer::text(200, text) })
            }
            "version" => Ok(Answer::value(200, &discovery::version(self.features().release()))),
            _ if path == "openapi/v3" || path.starts_with("openapi/v3/") => openapi::answer(self, path),
            "" => Ok(discovery::index(self)),
            _ => discovery::answer(self, path, form?).ok_or_else(ApiError::no_such_path),
        }
    }

    fn authorize_path(&self, user: &User, verb: &str, path: &str) -> Result<(), ApiError> {
        self.may_path(user, verb, &format!("/{path}")).map_err(|_| {
            ApiError::forbidden_path(&format!("/{path}"), &format!("User {:?} cannot {verb}", user.name))
        })
    }
}
