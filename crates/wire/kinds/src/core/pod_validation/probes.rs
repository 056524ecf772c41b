//! Probes and lifecycle handlers of a container.

use lazaret_json::Value;

use super::{choice, port_name};
use crate::{
    Errors,
    path::Path,
    value::{has, is_filled, list, number, some, text},
};

const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Probes and lifecycle of a container. One that ends before the others start has neither.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, container: &Value, grace: i64, runs_on: bool) {
    if !runs_on {
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, field) {
                errors.forbidden(
                    path.field(field),
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
        return;
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = some(container, "lifecycle").and_then(|lifecycle| some(lifecycle, hook)) {
            self::handler(errors, &path.field("lifecycle").field(hook), handler, grace);
        }
    }
    for (field, once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        if let Some(probe) = some(container, field) {
            self::probe(errors, &path.field(field), probe, grace, once);
        }
    }
}

/// `once`: a single success is enough, and what is not alive is ended, maybe with a grace of its own.
fn probe(errors: &mut Errors, path: &Path<'_>, probe: &Value, grace: i64, once: bool) {
    handler(errors, path, probe, grace);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        if number(probe, field) < 0 {
            errors.invalid(path.field(field), number(probe, field), "must be greater than or equal to 0");
        }
    }
    if let Some(seconds) = some(probe, "terminationGracePeriodSeconds").and_then(Value::as_i64) {
        let path = path.field("terminationGracePeriodSeconds");
        if seconds <= 0 {
            errors.invalid(path, seconds, "must be greater than 0");
        }
        if !once {
            errors.invalid(path, seconds, "must not be set for readinessProbes");
        }
    }
    if once && number(probe, "successThreshold") != 1 {
        errors.invalid(path.field("successThreshold"), number(probe, "successThreshold"), "must be 1");
    }
}

/// One way to ask or tell, and only one.
fn handler(errors: &mut Errors, path: &Path<'_>, handler: &Value, grace: i64) {
    let mut found = HANDLERS.iter().copied().filter(|kind| has(handler, kind));
    let Some(first) = found.next() else {
        errors.required(path, "must specify a handler type");
        return;
    };
    action(errors, &path.field(first), first, &handler[first], grace);
    for further in found {
        errors.forbidden(path.field(further), "may not specify more than 1 handler type");
    }
}

fn action(errors: &mut Errors, path: &Path<'_>, kind: &str, action: &Value, grace: i64) {
    match kind {
        "exec" if !is_filled(action, "command") => errors.required(path.field("command"), ""),
        "exec" => {}
        "sleep" => {
            let seconds = number(action, "seconds");
            if seconds < 0 || seconds > grace {
                errors.invalid(
                    path,
                    seconds,
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
                );
            }
        }
        "httpGet" => {
            if text(action, "path").is_empty() {
                errors.required(path.field("path"), "");
            }
            port(errors, &path.field("port"), &action["port"]);
            choice(errors, path, action, "scheme", &["HTTP", "HTTPS"]);
            for header in list(action, "httpHeaders").iter().map(|header| text(header, "name")) {
                if header.is_empty()
                    || !header.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric())
                {
                    errors.invalid(
                        path.field("httpHeaders"),
                        header,
                        "must be letters, digits and '-', as in 'X-Header-Name'",
                    );
                }
            }
        }
        _ => port(errors, &path.field("port"), &action["port"]),
    }
}

/// A number, or the name of a port.
pub(in crate::core) fn port(errors: &mut Errors, path: &Path<'_>, port: &Value) {
    match port.as_str() {
        Some(name) => port_name(errors, path, name),
        None => super::port_number(errors, path, port.as_i64().unwrap_or_default()),
    }
}
