//! Every namespace has a service account called `default`, and knows the certificate of the API server.

use k8s_openapi::api::core::v1::Namespace;

use crate::{meta, prelude::*, writes};

const ACCOUNT: &str = "default";
const ROOT_CERTIFICATES: &str = "kube-root-ca.crt";
/// The source of the certificate: the server's operator puts it there.
const SOURCE_NAMESPACE: &str = "kube-system";
const CERTIFICATE: &str = "ca.crt";

/// Creates the `default` ServiceAccount and the CA's ConfigMap in every namespace.
pub const RULES: Rules = Rules {
    name: "serviceaccount",
    needs: &[&resource::NAMESPACES, &resource::SERVICE_ACCOUNTS, &resource::CONFIG_MAPS],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    let Some(object) = change.latest() else { return };
    let key = object.key();
    if matches!(object, Object::Namespace(_)) {
        keys.push(key);
    } else if matches!(object, Object::ConfigMap(_)) && key == source() {
        keys.extend(world.namespaces().all().map(|(key, _)| key.clone()));
    } else {
        let account = matches!(object, Object::ServiceAccount(_)) && key.name == ACCOUNT;
        let certificates = matches!(object, Object::ConfigMap(_)) && key.name == ROOT_CERTIFICATES;
        if account || certificates {
            keys.push(Key::new("", key.namespace));
        }
    }
}

fn source() -> Key {
    Key::new(SOURCE_NAMESPACE, ROOT_CERTIFICATES)
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(namespace) = context.world.namespaces().get(context.key) else { return };
    if !is_active(namespace) {
        return;
    }
    let name = &context.key.name;
    if context.world.service_accounts().get(&Key::new(name.as_str(), ACCOUNT)).is_none() {
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        plan.write(Write::Create {
            resource: &resource::SERVICE_ACCOUNTS,
            namespace: name.clone(),
            body: body.into(),
        });
    }
    // The certificates have not been published yet.
    let Some(source) = context.world.config_maps().get(&source()) else { return };
    // It has no certificate.
    let Some(certificate) = source.data.as_ref().and_then(|data| data.get(CERTIFICATE)) else { return };
    let data = json!({CERTIFICATE: certificate});
    match context.world.config_maps().get(&Key::new(name.as_str(), ROOT_CERTIFICATES)) {
        Some(known) if known.data.as_ref().and_then(|data| data.get(CERTIFICATE)) == Some(certificate) => {}
        Some(known) => {
            plan.write(writes::patch(&resource::CONFIG_MAPS, &known.metadata, json!({"data": data})));
        }
        None => {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_CERTIFICATES}, "data": data});
            plan.write(Write::Create {
                resource: &resource::CONFIG_MAPS,
                namespace: name.clone(),
                body: body.into(),
            });
        }
    }
}

fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    !meta::is_leaving(&namespace.metadata) && phase != Some("Terminating")
}
