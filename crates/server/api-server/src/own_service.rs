//! The Service `kubernetes` in the namespace `default`: the way from pods to this server. It is made when the server starts and made again when
//! a client deletes or changes it, with its Endpoints and its EndpointSlice.

use std::{net::SocketAddr, time::Duration};

use lazaret_json::{Value, json};
use lazaret_storage::{Watch, WatchError};

use crate::{Server, auth::bootstrap, object};

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";
const PORT: u16 = 443;
/// A failed write is tried again after this.
const RETRY_SECONDS: u64 = 10;
/// An object that another client changed is restored after this, so that two writers who disagree do not keep the server busy.
const RESTORE_PAUSE_MS: u64 = 100;
/// Where the three objects are stored.
const KEYS: [&str; 3] = [
    "/core/services/default/kubernetes",
    "/core/endpoints/default/kubernetes",
    "/discovery.k8s.io/endpointslices/default/kubernetes",
];

impl Server {
    /// Keeps the Service `kubernetes` pointing at this address, until the store is closed.
    pub async fn keep_own_service(&self, address: SocketAddr) {
        loop {
            let from = self.store().revision();
            let watches = KEYS.map(|key| self.store().watch(key.into(), from));
            if let Err(error) = self.write_own_service(address).await {
                tracing::warn!(error, "the Service kubernetes could not be written");
                tokio::time::sleep(Duration::from_secs(RETRY_SECONDS)).await;
                continue;
            }
            let [Ok(mut service), Ok(mut endpoints), Ok(mut slice)] = watches else { return };
            let [wanted_service, wanted_endpoints, wanted_slice] =
                Self::own_objects(address).map(|(_, wanted)| wanted);
            let ended = tokio::select! {
                ended = until_changed(&mut service, &wanted_service) => ended,
                ended = until_changed(&mut endpoints, &wanted_endpoints) => ended,
                ended = until_changed(&mut slice, &wanted_slice) => ended,
            };
            if matches!(ended, Err(WatchError::Closed)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(RESTORE_PAUSE_MS)).await;
        }
    }

    /// Writes the three objects as they should be, where they are not.
    ///
    /// # Errors
    /// The object that could not be written.
    pub async fn write_own_service(&self, address: SocketAddr) -> Result<(), String> {
        for (path, mut object) in Self::own_objects(address) {
            let plural = path.rsplit('/').next().unwrap_or_default();
            let group = if plural == "endpointslices" { "discovery.k8s.io" } else { "" };
            let stored = lazaret_kinds::find(group, plural).and_then(|kind| self.get(kind, NAMESPACE, NAME));
            let (method, path, kind) = match stored {
                None => {
                    if plural == "services" {
                        // An address stays once it is given, also when the range becomes another.
                        object["spec"]["clusterIP"] =
                            self.service_ranges().first_address().to_string().into();
                    }
                    ("POST", path, "application/json")
                }
                Some(stored) if is_as_wanted(&object, &stored) => continue,
                Some(_) => ("PATCH", format!("{path}/{NAME}"), "application/merge-patch+json"),
            };
            match bootstrap::ask(self, method, &path, kind, object.to_string()).await? {
                // Another writer was faster: the watch shows its change.
                200 | 201 | 404 | 409 => {}
                code => return Err(format!("{method} {path}: answered {code}")),
            }
        }
        Ok(())
    }

    fn own_objects(address: SocketAddr) -> [(String, Value); 3] {
        let port = json!({"name": "https", "protocol": "TCP", "port": address.port()});
        let ip = address.ip();
        let service = json!({
            "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "protocol": "TCP", "port": PORT, "targetPort": address.port()}],
            },
        });
        let endpoints = json!({
            "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip.to_string()}], "ports": [port]}],
        });
        let slice = json!({
            "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
            "ports": [port],
        });
        [
            (format!("/api/v1/namespaces/{NAMESPACE}/services"), service),
            (format!("/api/v1/namespaces/{NAMESPACE}/endpoints"), endpoints),
            (format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"), slice),
        ]
    }
}

/// Waits for a change that leaves the object other than it should be.
async fn until_changed(watch: &mut Watch, wanted: &Value) -> Result<(), WatchError> {
    loop {
        let event = watch.next().await?;
        let Some(item) = &event.new else { return Ok(()) };
        let stored = object::decode(&item.value);
        if object::meta(&stored, "name") == NAME && !is_as_wanted(wanted, &stored) {
            return Ok(());
        }
    }
}

/// Whether a stored object says all that is wanted; it may say more.
fn is_as_wanted(wanted: &Value, stored: &Value) -> bool {
    match (wanted, stored) {
        (Value::Object(wanted), Value::Object(stored)) => wanted
            .iter()
            .all(|(field, value)| stored.get(field).is_some_and(|stored| is_as_wanted(value, stored))),
        (Value::Array(wanted), Value::Array(stored)) => {
            wanted.len() == stored.len()
                && wanted.iter().zip(stored.iter()).all(|(wanted, stored)| is_as_wanted(wanted, stored))
        }
        (wanted, stored) => wanted == stored,
    }
}
