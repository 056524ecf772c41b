//! Defaults of a pod's spec, in pods and in templates of pods.

use lazaret_json::{Value, json};

use crate::value::{
    field_mut, fill, fill_zero, has, is_filled, is_true, list_mut, number, put, quantity, text,
};

const GRACE_SECONDS: i64 = 30;
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;
/// The sources that a volume may have are all its fields but this.
const VOLUME_NAME: &str = "name";

/// A spec, wherever it is.
pub(crate) fn default(spec: &mut Value) {
    let account = text(spec, "serviceAccountName").to_owned();
    let account = if account.is_empty() { text(spec, "serviceAccount").to_owned() } else { account };
    if !account.is_empty() {
        put(spec, "serviceAccountName", account.clone());
        put(spec, "serviceAccount", account);
    }
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", GRACE_SECONDS);
    fill(spec, "schedulerName", "default-scheduler");
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        list_mut(spec, field).iter_mut().for_each(container);
    }
    list_mut(spec, "volumes").iter_mut().for_each(volume);
}

/// Further defaults of a pod.
pub(super) fn default_pod(spec: &mut Value) {
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        put(spec, "terminationGracePeriodSeconds", 1);
    }
    fill(spec, "enableServiceLinks", true);
    let on_host = is_true(spec, "hostNetwork");
    for field in ["containers", "initContainers"] {
        for container in list_mut(spec, field) {
            requests_from_limits(container);
            if on_host {
                for port in list_mut(container, "ports") {
                    let number = number(port, "containerPort");
                    fill_zero(port, "hostPort", number);
                }
            }
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(Value::Object(limits)) = container.pointer("/resources/limits").cloned() else { return };
    let requests = field_mut(field_mut(container, "resources"), "requests");
    for (resource, limit) in limits {
        if !has(requests, &resource) {
            put(requests, &resource, limit);
        }
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    list_mut(container, "ports").iter_mut().for_each(|port| fill(port, "protocol", "TCP"));
    for variable in list_mut(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            reference(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            for (field, default) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                fill_zero(probe, field, default);
            }
            http_get(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_get(handler);
        }
    }
}

/// A field or resource that a variable or file has.
fn reference(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef").filter(|field| field.is_object()) {
        fill(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef").filter(|resource| resource.is_object()) {
        fill(resource, "divisor", "0");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(action) = handler.get_mut("httpGet").filter(|action| action.is_object()) {
        fill(action, "path", "/");
        fill(action, "scheme", "HTTP");
    }
    if let Some(action) = handler.get_mut("grpc").filter(|action| action.is_object()) {
        fill(action, "service", "");
    }
}

fn volume(volume: &mut Value) {
    let sourced = volume
        .as_object()
        .is_some_and(|map| map.iter().any(|(key, value)| key != VOLUME_NAME && !value.is_null()));
    if !sourced {
        put(volume, "emptyDir", json!({}));
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) {
            fill(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        list_mut(files, "items").iter_mut().for_each(reference);
    }
    if let Some(host) = volume.get_mut("hostPath").filter(|host| host.is_object() && !has(host, "type")) {
        put(host, "type", "");
    }
    for source in
        volume.get_mut("projected").map(|projected| list_mut(projected, "sources")).into_iter().flatten()
    {
        if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
            fill(token, "expirationSeconds", TOKEN_SECONDS);
        }
        if let Some(files) = source.get_mut("downwardAPI") {
            list_mut(files, "items").iter_mut().for_each(reference);
        }
    }
}

/// When an image is pulled, if nothing is said.
fn pull_policy(image: &str) -> &'static str {
    if tag_of(image) == "latest" { "Always" } else { "IfNotPresent" }
}

/// The tag of an image: `latest` if it has neither tag nor digest.
fn tag_of(image: &str) -> &str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

/// How sure a pod can be of its cpu and memory.
pub(super) fn quality(spec: &Value) -> &'static str {
    let own = spec.get("resources").filter(|own| is_filled(own, "requests") || is_filled(own, "limits"));
    let of_containers = || {
        ["containers", "initContainers"]
            .into_iter()
            .flat_map(|field| crate::value::list(spec, field))
            .map(|container| &container["resources"])
            .collect()
    };
    let all: Vec<&Value> = own.map_or_else(of_containers, |own| vec![own]);
    let amount = |resources: &Value, kind: &str, resource: &str| {
        resources[kind].get(resource).and_then(quantity).filter(|amount| !amount.is_zero())
    };
    let counted = ["cpu", "memory"];
    let nothing = all.iter().all(|resources| {
        counted.iter().all(|resource| {
            amount(resources, "requests", resource).is_none()
                && amount(resources, "limits", resource).is_none()
        })
    });
    let everything = all.iter().all(|resources| {
        counted.iter().all(|resource| {
            let limit = amount(resources, "limits", resource);
            limit.is_some() && limit == amount(resources, "requests", resource)
        })
    });
    match (nothing, everything) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}
