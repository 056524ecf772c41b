//! The question of `kubectl device check` about the webhook for rules: a dry-run rule, which is never stored, shows whether the webhook is reached.

use serde_json::{Value, json};

use super::Session;
use crate::{
    Error,
    api::{DryRun, Resource},
    view::Webhook,
};

/// On the rule, and in what the webhook says to it.
const PROBE: &str = "lazaret.dev/webhook-probe";

/// One entry for each configuration of the chart, on a server with these rules.
pub(super) async fn webhooks(
    session: &Session<'_>,
    rules: Option<Resource>,
    configurations: Option<Vec<Value>>,
) -> Result<Option<Vec<Webhook>>, Error> {
    let Some(configurations) = configurations else { return Ok(None) };
    let mut found = Vec::new();
    for one in configurations {
        let hooks = one["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_told =
            |hook: &Value| hook["clientConfig"]["caBundle"].as_str().is_some_and(|text| !text.is_empty());
        found.push(Webhook {
            name: one["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            is_trusted: !hooks.is_empty() && hooks.iter().all(is_told),
            has_endpoints: endpoints(session, hooks).await?,
            answers: answers(session, rules).await?,
        });
    }
    Ok(Some(found))
}

/// Whether a pod of its Service is ready; `None` where it is reached by a URL, or this user may not see it.
async fn endpoints(session: &Session<'_>, hooks: &[Value]) -> Result<Option<bool>, Error> {
    for hook in hooks {
        let service = &hook["clientConfig"]["service"];
        let (Some(namespace), Some(name)) = (service["namespace"].as_str(), service["name"].as_str()) else {
            return Ok(None);
        };
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{name}"
        );
        let slices = match session.api.get_path(&path, "look at the webhook's Service").await {
            Ok(slices) => slices,
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(_) => return Ok(None),
        };
        let endpoints = slices["items"].as_array().into_iter().flatten();
        let mut endpoints = endpoints.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        if !endpoints.any(|endpoint| endpoint["conditions"]["ready"] == true) {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}

/// Whether the API server reaches it; `None` where there are no rules, this user may not write them, or something else refuses them.
async fn answers(session: &Session<'_>, rules: Option<Resource>) -> Result<Option<bool>, Error> {
    let Some(rules) = rules else { return Ok(None) };
    let rule = json!({
        "apiVersion": rules.api_version(), "kind": rules.kind,
        "metadata": {
            "generateName": "lazaret-webhook-probe-",
            "annotations": {PROBE: "check", "lazaret.dev/reason": "kubectl device check asks whether the webhook answers"},
        },
        "spec": {
            "deviceSelector": {"driver": "webhook-probe.lazaret.dev"},
            "taint": {"key": PROBE, "effect": "NoSchedule"},
        },
    });
    match session.api.create(&rules, "", &rule, DryRun::Server).await {
        Ok(_) => Ok(Some(false)),
        Err(error @ Error::Unreachable { .. }) => Err(error),
        Err(error) if error.to_string().contains(&format!("{PROBE}: the webhook answers")) => Ok(Some(true)),
        Err(Error::Refused { code: 500, .. }) => Ok(Some(false)),
        Err(_) => Ok(None),
    }
}
