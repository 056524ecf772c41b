//! Options of a request about a pod's container, in the node's words.

use lazaret_json::Value;
use lazaret_kinds::Errors;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{ApiError, call::Call, request::Target, respond::Answer};

/// Where a simulated node leaves what a pod's containers wrote.
const LOG_ANNOTATION: &str = "lazaret.dev/log";

/// The pod of a call.
pub(super) fn get(call: &Call<'_>) -> Result<Value, ApiError> {
    let Target { namespace, name, .. } = &call.target;
    call.server.get(&call.kind, namespace, name).ok_or_else(|| ApiError::not_found(&call.kind, name))
}

/// The container that a call names, or the only one.
pub(super) fn container(call: &Call<'_>, pod: &Value) -> Result<String, ApiError> {
    let name = &call.target.name;
    let names = |list: &str| -> Vec<&str> {
        let list = pod["spec"][list].as_array().into_iter().flatten();
        list.filter_map(|container| container["name"].as_str()).collect()
    };
    let main = names("containers");
    let all = || [names("initContainers"), main.clone(), names("ephemeralContainers")].concat();
    match (call.query.get("container"), main.as_slice()) {
        (Some(asked), _) if all().contains(&asked) => Ok(asked.to_owned()),
        (Some(asked), _) => {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => {
            Err(ApiError::bad_request(format!("a container name must be specified for pod {name}")))
        }
        (None, _) => {
            let all = all().join(" ");
            let why = format!("a container name must be specified for pod {name}, choose one of: [{all}]");
            Err(ApiError::bad_request(why))
        }
    }
}

pub(super) fn node_of(pod: &Value) -> Option<String> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned)
}

pub(super) fn no_host(call: &Call<'_>) -> ApiError {
    ApiError::bad_request(format!("pod {} does not have a host assigned", call.target.name))
}

/// The log that a pod's node left on the pod. Without one the log is unknown, which is not the same as empty.
pub(super) fn simulated_log(call: &Call<'_>, pod: &Value) -> Result<Answer, ApiError> {
    match pod["metadata"]["annotations"][LOG_ANNOTATION].as_str() {
        Some(text) => Ok(Answer::text(200, text.to_owned())),
        None => Err(unreachable(call, pod)),
    }
}

// DEVIATION(containers-out-of-reach)
pub(super) fn unreachable(call: &Call<'_>, pod: &Value) -> ApiError {
    let Target { name, subresource, .. } = &call.target;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    ApiError::not_implemented(format!(
        "{subresource}: this server has no connection to node {node:?}, so containers of pod {name} cannot be reached"
    ))
}

/// The parameters of a stream, as nodes call them.
pub(super) fn stream_query(call: &Call<'_>) -> String {
    let mut pairs = Vec::new();
    if call.target.subresource == "portforward" {
        let ports = call.query.all("ports").flat_map(|ports| ports.split(','));
        pairs.extend(ports.filter_map(|port| port.parse::<u16>().ok()).map(|port| format!("port={port}")));
    } else {
        for (ours, theirs) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")]
        {
            if call.query.flag(ours) {
                pairs.push(format!("{theirs}=1"));
            }
        }
        let command = call.query.all("command").filter(|_| call.target.subresource == "exec");
        pairs.extend(command.map(|part| format!("command={}", utf8_percent_encode(part, NON_ALPHANUMERIC))));
    }
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Which part of a log is asked for. The node does the selecting.
#[derive(Debug, Default)]
pub(super) struct LogOptions {
    pairs: Vec<String>,
    pub(super) skips_verification: bool,
}

impl LogOptions {
    /// # Errors
    /// The invalid options, in Kubernetes' words.
    pub(super) fn of(call: &Call<'_>) -> Result<Self, ApiError> {
        let query = &call.query;
        let mut pairs = Vec::new();
        let mut errors = Errors::new();
        for name in ["follow", "previous", "timestamps"] {
            if query.flag(name) {
                pairs.push(format!("{name}=true"));
            }
        }
        let zero = "must be greater than or equal to 0";
        for (name, least, why) in [
            ("tailLines", 0, zero),
            ("limitBytes", 1, "must be greater than 0"),
            ("sinceSeconds", 1, "must be greater than 0"),
        ] {
            if let Some(number) = query.number(name)? {
                if number < least {
                    errors.invalid(name, number, why);
                }
                pairs.push(format!("{name}={number}"));
            }
        }
        if let Some(time) = query.get("sinceTime") {
            let time: jiff::Timestamp =
                time.parse().map_err(|error| ApiError::bad_request(format!("sinceTime: {error}")))?;
            if query.has("sinceSeconds") {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.forbidden("", why);
            }
            pairs.push(format!("sinceTime={}", utf8_percent_encode(&time.to_string(), NON_ALPHANUMERIC)));
        }
        if let Some(stream) = query.get("stream") {
            if !["All", "Stdout", "Stderr"].contains(&stream) {
                return Err(ApiError::bad_request(format!("invalid stream type {stream:?}")));
            }
            pairs.push(format!("stream={stream}"));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_log_options(&call.target.name, &errors));
        }
        Ok(Self { pairs, skips_verification: query.flag("insecureSkipTLSVerifyBackend") })
    }

    pub(super) fn query(&self) -> String {
        if self.pairs.is_empty() { String::new() } else { format!("?{}", self.pairs.join("&")) }
    }
}
