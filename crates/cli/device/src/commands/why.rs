//! `kubectl device why`.

use lazaret_api::Object;
use lazaret_model::{DeviceId, DeviceTaintRule, ObjectKey};
use serde_json::Value;

use super::{
    Session,
    describe::events,
    incidents::{all_incidents, none_if_hidden},
    load::{Need, load},
};
use crate::{
    Error, Verdict,
    api::{CLASSIC_CLAIMS, PODS, REPLACEMENT_POLICIES, Scope, TAINT_POLICIES},
    args::WhyArgs,
    output::structured,
    view::{
        ClassicWhy, Cluster, IncidentRow, PolicyFacts, Why, incident_row, nearest, replacements, why_evicted,
        why_pending, why_replaced, with_incidents, with_replacements, with_taint_policies,
    },
};

pub(super) async fn run(session: &mut Session<'_>, args: WhyArgs) -> Result<Verdict, Error> {
    let written = args.pod.strip_prefix("pod/").unwrap_or(&args.pod);
    let (namespace, name) = written.split_once('/').unwrap_or((session.namespace(), written));
    let key = ObjectKey::new(namespace, name);
    let need = Need { pods: true, nodes: true, classes: true, outlook: true, ..Need::default() };
    let mut cluster = load(session, need).await?.cluster;
    let events = events(session).await?;
    let now = session.now();
    let replacements = replacements(&policies(session, &key.namespace).await?, &key);
    let why = why_pending(&mut cluster, &key, &events, now).or_else(|| why_evicted(&cluster, &key, &events));
    let spoken_of = || (!replacements.is_empty()).then(|| Why { pod: key.to_string(), ..Why::default() });
    let (classic, summary) = classic(session, &key).await?;
    let negotiated =
        || (!classic.is_empty()).then(|| Why { pod: key.to_string(), summary, ..Why::default() });
    let why = match why.or_else(spoken_of).or_else(negotiated) {
        Some(why) => with_replacements(why, replacements),
        None if found(session.api.get(&PODS, &key.namespace, &key.name).await)?.is_some() => {
            let message = format!("pod {key} uses no devices, and no TaintReplacementPolicy applies to it");
            return Err(Error::usage(message));
        }
        None => why_replaced(&key, &events).ok_or_else(|| unknown(&cluster, &key))?,
    };
    let rows: Vec<IncidentRow> = all_incidents(session).await?.iter().map(incident_row).collect();
    let why = with_incidents(why, &devices_of(&cluster, &key), &rows);
    let why = with_taint_policies(why, &cluster, &key, &taint_policies(session).await?);
    let why = Why { classic, ..why };
    match args.output.structured() {
        Some(form) => structured(session.console, &why, form)?,
        None => session.console.print(&why.text(now))?,
    }
    Ok(Verdict::Yes)
}

/// An object that is there; `None` where it is not.
fn found(read: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The classic claims of a pod, and in a sentence how it fares with them; none where the pod is gone.
async fn classic(session: &Session<'_>, key: &ObjectKey) -> Result<(Vec<ClassicWhy>, String), Error> {
    let Some(json) = found(session.api.get(&PODS, &key.namespace, &key.name).await)? else {
        return Ok(Default::default());
    };
    let Some(pod) = lazaret_api::read_classic_pod(json.to_string().as_bytes()) else {
        return Ok(Default::default());
    };
    let mut claims = Vec::new();
    for claim in pod.claim_keys() {
        let claimed = found(session.api.get(&CLASSIC_CLAIMS, &claim.namespace, &claim.name).await)?;
        claims.push(ClassicWhy::of(&claim.name, claimed.as_ref()));
    }
    let conditions = json["status"]["conditions"].as_array().into_iter().flatten();
    let said = conditions
        .filter(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
        .find_map(|condition| condition["message"].as_str());
    let summary = match (&pod.node, said) {
        (Some(node), _) => format!("is on node {node} with classic claims"),
        (None, Some(said)) => format!("waits: {said}"),
        (None, None) => "waits for its classic claims".to_owned(),
    };
    Ok((claims, summary))
}

/// The devices that a pod holds.
fn devices_of(cluster: &Cluster, key: &ObjectKey) -> Vec<DeviceId> {
    let fleet = &cluster.fleet;
    let claims = fleet.pod_ix(key).into_iter().flat_map(|pod| fleet.claims_of_pod(pod));
    claims.flat_map(|claim| fleet.held(claim)).map(|held| held.device.clone()).collect()
}

/// The policies of a namespace; none where they are not served or may not be read.
async fn policies(session: &Session<'_>, namespace: &str) -> Result<Vec<PolicyFacts>, Error> {
    let mut policies = Vec::new();
    let scope = Scope { namespace: namespace.to_owned(), ..Scope::default() };
    let read = session.api.list(&REPLACEMENT_POLICIES, &scope, |item| {
        policies.extend(serde_json::from_str::<PolicyFacts>(item.json()).ok());
    });
    match none_if_hidden(read.await.map(Some))? {
        Some(_) => Ok(policies),
        None => Ok(Vec::new()),
    }
}

/// The DeviceTaintPolicies; none where they are not served or may not be read.
async fn taint_policies(session: &Session<'_>) -> Result<Vec<DeviceTaintRule>, Error> {
    let (mut policies, scope) = (Vec::new(), Scope::default());
    let read = session.api.list(&TAINT_POLICIES, &scope, |item| {
        if let Ok(Object::Rule(policy)) = lazaret_api::decode_json(item.json()) {
            policies.push(policy);
        }
    });
    match none_if_hidden(read.await.map(Some))? {
        Some(_) => Ok(policies),
        None => Ok(Vec::new()),
    }
}

/// A pod that is not there: perhaps another is meant.
fn unknown(cluster: &Cluster, key: &ObjectKey) -> Error {
    let known: Vec<String> = cluster.fleet.pods().map(|(_, pod)| pod.key.to_string()).collect();
    let near = nearest(&key.to_string(), known.iter().map(String::as_str));
    let hint = if near.is_empty() {
        "if it was evicted, the event has expired: the server keeps events for an hour by default".to_owned()
    } else {
        format!("nearest names:\n  {}", near.join("\n  "))
    };
    Error::usage(format!("no pod {key}, and no event about its eviction; {hint}"))
}
