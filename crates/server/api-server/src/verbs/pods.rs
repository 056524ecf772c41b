//! The binding of a pod to a node.

use lazaret_json::{Value, json};

use super::finish::{Change, change};
use crate::{
    ApiError, admission,
    call::Call,
    clock,
    input::{check_message_type, read_message},
    negotiate, object,
    request::Target,
    respond::Answer,
};

pub(super) async fn bind(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let mut binding = read_message(negotiate::body(call.content_type.as_deref())?, body, "core/v1.Binding")?;
    check_message_type(&binding, &["v1"], "Binding")?;
    let name = call.target.name.clone();
    let node_of = |binding: &Value| {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        let why = "target.name: Required value: the node to bind to";
        if node.is_empty() { Err(ApiError::bad_request(why)) } else { Ok(node) }
    };
    node_of(&binding)?;
    let warnings = admission::create_subresource(call, &mut binding, &Value::Null).await?;
    let node = node_of(&binding)?;
    let refuse = |why: String| ApiError::conflict(&call.kind, &name, &why);
    let written = change(&as_main(call), &name, |old, _| {
        let uid = object::meta(&binding, "uid");
        if !uid.is_empty() && uid != object::meta(old, "uid") {
            return Err(refuse(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::meta(old, "uid")
            )));
        }
        if object::is_deleting(old) {
            return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        if let Some(bound) = old["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
            return Err(refuse(format!("pod {name} is already assigned to node {bound:?}")));
        }
        if old["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        let mut object = old.clone();
        object["spec"]["nodeName"] = node.clone().into();
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        for field in ["annotations", "labels"] {
            for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                object["metadata"][field][key.as_str()] = value.clone();
            }
        }
        if binding["target"]["kind"] == "Node" {
            admission::copy_topology(call, &mut object, &node);
        }
        set_condition(&mut object, json!({"type": "PodScheduled", "status": "True"}));
        let expected = object::meta(&binding, "resourceVersion").parse().ok();
        Ok(Change { object, owners_known: false, expected })
    })
    .await?;
    drop(written);
    Ok(Answer::value(
        201,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
    .warn(warnings))
}

/// The same call on the pod itself: binding writes spec and status at once.
pub(super) fn as_main<'a>(call: &Call<'a>) -> Call<'a> {
    call.on(Target { subresource: "binding".into(), ..call.target.clone() })
}

/// Sets a condition; its time of transition changes only with its status.
pub(super) fn set_condition(object: &mut Value, mut condition: Value) {
    let now = jiff::Timestamp::from_second(clock::now().as_second())
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_string();
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(list) = conditions else { return };
    condition["lastTransitionTime"] = now.into();
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}
