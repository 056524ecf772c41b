//! Requests that are answered by a node: logs, exec, attach and port-forward of pods, and the node's own API.
//!
//! The server looks up where the pod runs, authorizes, runs admission, and connects to the node with a certificate of its own. Bytes after
//! that are copied as they come: the server understands neither websockets nor SPDY here.

mod connect;
mod headers;
mod location;
mod node_body;
pub(crate) mod nodes;
mod pods;
mod reach;
mod trust;
pub(crate) mod usage;

use bytes::Bytes;
use http::{Method, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, upgrade::OnUpgrade};

use crate::{
    ApiError, Body, admission,
    call::Call,
    request::{Target, Verb},
    respond::Answer,
    tunnel::Tunnel,
};

pub use nodes::NodeConnections;
pub use trust::NodeTrust;

use self::{
    connect::NodeStream,
    location::Location,
    node_body::NodeBody,
    reach::{Reachability, reach},
};

/// Bytes that are read of a node's refusal, as in Kubernetes.
const REFUSAL_BYTES_MAX: usize = 50_000;
const PROXY: &str = "proxy";

/// A request as it came.
pub(crate) struct ProxyRequest {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    /// The path after `/proxy`, as it was sent.
    pub(crate) rest: String,
}

/// Removes the path after `/proxy` from a target; it is not part of the subresource.
pub(crate) fn split(target: &mut Target, path: &str) -> String {
    let proxied = target.subresource == PROXY || target.subresource.starts_with("proxy/");
    if !proxied || !target.group.is_empty() {
        return String::new();
    }
    target.subresource = PROXY.to_owned();
    // `/api/v1/nodes/NAME/proxy/…` or `/api/v1/namespaces/NAMESPACE/pods/NAME/proxy/…`
    let before = if target.namespace.is_empty() { 6 } else { 8 };
    let rest: Vec<&str> = path.splitn(before + 1, '/').collect();
    rest.get(before).map(|rest| format!("/{rest}")).unwrap_or_default()
}

/// Whether a node answers it.
pub(crate) fn takes(call: &Call<'_>) -> bool {
    let target = &call.target;
    target.group.is_empty()
        && match target.plural.as_str() {
            "pods" => {
                matches!(target.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | PROXY)
            }
            "nodes" | "services" => target.subresource == PROXY,
            _ => false,
        }
}

/// Answers such a request. The call has been authorized by its verb.
pub(crate) async fn answer(call: &Call<'_>, verb: Verb, mut asked: ProxyRequest) -> Result<Answer, ApiError> {
    match (call.target.plural.as_str(), call.target.subresource.as_str(), verb) {
        ("pods", "log", Verb::Get) => log(call).await,
        ("pods", "exec" | "attach" | "portforward", Verb::Get | Verb::Create) => {
            stream(call, &mut asked).await
        }
        ("nodes", PROXY, Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete) => {
            node(call, &mut asked).await
        }
        (plural @ ("pods" | "services"), PROXY, _) => Err(ApiError::not_implemented(format!(
            "{plural}/proxy: this server does not connect to pods; use kubectl port-forward"
        ))),
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn log(call: &Call<'_>) -> Result<Answer, ApiError> {
    let options = pods::LogOptions::of(call)?;
    let pod = pods::get(call)?;
    let container = pods::container(call, &pod)?;
    let Some(node) = pods::node_of(&pod) else { return Err(pods::no_host(call)) };
    let reached = match reach(call.server, &node)? {
        Reachability::Node(location) => location,
        Reachability::Simulated => return pods::simulated_log(call, &pod),
    };
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let path = format!("/containerLogs/{namespace}/{name}/{container}{}", options.query());
    call.held.release();
    let trust = if options.skips_verification { Some(NodeTrust::Nobody) } else { None };
    let stream = connect::open(call.server, &reached, trust)
        .await
        .map_err(|why| ApiError::of_backend(format!("Get \"{}{path}\": {why}", reached.url())))?;
    let request = connect::request(Method::GET, &path, &reached);
    let (response, held) = stream.send(request, Bytes::new()).await.map_err(ApiError::of_backend)?;
    if !response.status().is_success() {
        return Err(refused_log(name, response).await);
    }
    let body = Body::Stream(Box::new(NodeBody::new(response.into_body(), held)));
    Ok(Answer { content_type: "text/plain", ..Answer::stream(body) })
}

async fn refused_log(name: &str, response: http::Response<Incoming>) -> ApiError {
    let code = response.status();
    let text = String::from_utf8_lossy(&refusal(response.into_body()).await).trim().to_owned();
    match code {
        StatusCode::BAD_REQUEST => ApiError::bad_request(text),
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::internal(text),
        StatusCode::NOT_FOUND => {
            ApiError::no_such_path_of("pods/log", name).with_cause("UnexpectedServerResponse", &text, "")
        }
        other => ApiError::of_backend(format!("the node answered {other}: {text}")),
    }
}

async fn refusal(body: Incoming) -> Bytes {
    Limited::new(body, REFUSAL_BYTES_MAX).collect().await.map(|whole| whole.to_bytes()).unwrap_or_default()
}

/// Exec, attach and port-forward.
async fn stream(call: &Call<'_>, asked: &mut ProxyRequest) -> Result<Answer, ApiError> {
    // A websocket begins with GET; permission to read must not be enough to run something.
    if call.verb != Verb::Create {
        call.authorize(Verb::Create)?;
    }
    let warnings = admission::may_connect(call).await?;
    let answer = begin(call, asked).await;
    match answer {
        Ok(answer) => Ok(answer.warn(warnings)),
        Err(error) => Err(error.with_warnings(warnings)),
    }
}

async fn begin(call: &Call<'_>, asked: &mut ProxyRequest) -> Result<Answer, ApiError> {
    let pod = pods::get(call)?;
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let path = match call.target.subresource.as_str() {
        "portforward" => format!("/portForward/{namespace}/{name}"),
        what => format!("/{what}/{namespace}/{name}/{}", pods::container(call, &pod)?),
    };
    let Some(node) = pods::node_of(&pod) else { return Err(pods::no_host(call)) };
    let location = match reach(call.server, &node)? {
        Reachability::Node(location) => location,
        Reachability::Simulated => return Err(pods::unreachable(call, &pod)),
    };
    let path = format!("{path}{}", pods::stream_query(call));
    let Some(upgrade) =
        asked.parts.extensions.remove::<OnUpgrade>().filter(|_| headers::upgrades(&asked.parts))
    else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    upgraded(call, asked, &location, &path, upgrade).await
}

/// Sends a request to switch protocols on to a node, and carries what follows if it does.
async fn upgraded(
    call: &Call<'_>,
    asked: &ProxyRequest,
    location: &Location,
    path: &str,
    upgrade: OnUpgrade,
) -> Result<Answer, ApiError> {
    call.held.release();
    let stream = open(call, location).await?;
    let mut request = connect::request(asked.parts.method.clone(), path, location);
    headers::copy_upgrade(&asked.parts.headers, request.headers_mut());
    let (mut response, held) = stream.send(request, Bytes::new()).await.map_err(ApiError::of_backend)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let code = response.status().as_u16();
        let text = refusal(response.into_body()).await;
        return Ok(Answer::text(if code < 400 { 502 } else { code }, text));
    }
    let node = hyper::upgrade::on(&mut response);
    let headers = headers::of_switch(response.headers());
    Ok(Answer::switching(Tunnel::new(headers, upgrade, node, held, call.server.ending())))
}

async fn open(call: &Call<'_>, location: &Location) -> Result<NodeStream, ApiError> {
    let opened = connect::open(call.server, location, None).await;
    opened.map_err(|why| ApiError::of_backend(format!("error dialing backend: {why}")))
}

/// The API of a node.
async fn node(call: &Call<'_>, asked: &mut ProxyRequest) -> Result<Answer, ApiError> {
    let upgrades = asked.parts.headers.contains_key(header::UPGRADE);
    // A command could be run over it, which needs more than permission to read.
    if upgrades && call.verb != Verb::Create {
        call.authorize(Verb::Create)?;
    }
    let warnings = admission::may_connect(call).await?;
    let location = match reach(call.server, &call.target.name)? {
        Reachability::Node(location) => location,
        Reachability::Simulated => {
            let name = &call.target.name;
            let why = format!("proxy: this server has no connection to node {name:?}, which is simulated");
            return Err(ApiError::not_implemented(why).with_warnings(warnings));
        }
    };
    let path = headers::path(&asked.rest, asked.parts.uri.query())?;
    if upgrades {
        let upgrade =
            asked.parts.extensions.remove::<OnUpgrade>().filter(|_| headers::upgrades(&asked.parts));
        let upgrade = upgrade.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
        return Ok(upgraded(call, asked, &location, &path, upgrade).await?.warn(warnings));
    }
    call.held.release();
    let stream = open(call, &location).await?;
    let mut request = connect::request(asked.parts.method.clone(), &path, &location);
    headers::copy_plain(&asked.parts.headers, request.headers_mut());
    let (response, held) = stream.send(request, asked.body.clone()).await.map_err(ApiError::of_backend)?;
    let (code, content_type) = (response.status().as_u16(), headers::content_type(response.headers()));
    let body = Body::Stream(Box::new(NodeBody::new(response.into_body(), held)));
    Ok(Answer { code, content_type, ..Answer::stream(body) }.warn(warnings))
}
