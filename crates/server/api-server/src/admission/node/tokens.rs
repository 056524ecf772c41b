//! Tokens of service accounts: a node gets those of its pods, for the audiences that these pods name.

use lazaret_json::Value;
use lazaret_kinds::Access;

use super::{
    attempt::{Attempt, AttemptContext, Operation, Refusal, Verdict},
    pods::is_bound_to,
};
use crate::{
    auth::node::references::{list, text, volume_claim},
    object,
};

/// Tokens only for audiences that pods name.
const AUDIENCES: &str = "ServiceAccountNodeAudienceRestriction";

/// Sources of volumes that a CSI driver has taken over.
const MIGRATED: &[(&str, &str)] = &[
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

pub(super) fn token(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    if attempt.operation != Operation::Create {
        return Ok(());
    }
    let spec = &attempt.object["spec"];
    let reference = &spec["boundObjectRef"];
    let name = text(reference, "name").unwrap_or_default();
    if reference["apiVersion"] != "v1" || reference["kind"] != "Pod" || name.is_empty() {
        return Err(Refusal::from("node requested token not bound to a pod"));
    }
    let Some(uid) = text(reference, "uid") else {
        return Err(Refusal::from("node requested token with a pod binding without a uid"));
    };
    let Some(pod) = (context.stored)("", "pods", attempt.namespace, name) else {
        return Err(Refusal::NotFound("", "pods", name.to_owned()));
    };
    if object::meta(&pod, "uid") != uid {
        return Err(Refusal::Forbidden(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        )));
    }
    if !is_bound_to(&pod, attempt.node) {
        return Err(Refusal::from("node requested token bound to a pod scheduled on a different node"));
    }
    if context.features.is_on(AUDIENCES) {
        audience(attempt, context, &spec["audiences"], &pod).map_err(Refusal::Forbidden)?;
    }
    Ok(())
}

fn audience(
    attempt: &Attempt<'_>,
    context: &AttemptContext<'_>,
    audiences: &Value,
    pod: &Value,
) -> Result<(), String> {
    let wanted = match audiences.as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".into()),
    };
    if is_named(context, pod, wanted).map_err(|why| format!("error validating audience {wanted:?}: {why}"))? {
        return Ok(());
    }
    let access = Access {
        verb: "request-serviceaccounts-token-audience",
        group: "",
        resource: wanted,
        subresource: "",
        namespace: attempt.namespace,
        name: attempt.name,
        fields: &[],
    };
    if (context.may)(access) {
        return Ok(());
    }
    Err(format!("{} is not authorized to request tokens for audience {wanted:?}", attempt.user))
}

/// Whether a volume of the pod needs a token for an audience: itself, or through its driver.
fn is_named(context: &AttemptContext<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut errors = Vec::new();
    for volume in list(&pod["spec"], "volumes") {
        let mut tokens = list(&volume["projected"], "sources").map(|source| &source["serviceAccountToken"]);
        if tokens.any(|token| token.is_object() && token["audience"].as_str().unwrap_or_default() == audience)
        {
            return Ok(true);
        }
        let driver = match volume_claim(pod, volume) {
            Some(claim) => driver_of_claim(context, object::meta(pod, "namespace"), &claim),
            None => Ok(driver_of(volume)),
        };
        match driver.and_then(|driver| driver.map_or(Ok(false), |name| wants(context, &name, audience))) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// The driver of an inline volume or of a persistent one.
fn driver_of(source: &Value) -> Option<String> {
    let migrated = || MIGRATED.iter().find(|(field, _)| source[*field].is_object());
    let named = text(&source["csi"], "driver");
    named.or_else(|| migrated().map(|(_, driver)| *driver)).map(str::to_owned)
}

fn driver_of_claim(
    context: &AttemptContext<'_>,
    namespace: &str,
    claim: &str,
) -> Result<Option<String>, String> {
    let found = (context.stored)("", "persistentvolumeclaims", namespace, claim)
        .ok_or_else(|| format!("persistentvolumeclaim {claim:?} not found"))?;
    let volume = found["spec"]["volumeName"].as_str().unwrap_or_default();
    let found = (context.stored)("", "persistentvolumes", "", volume)
        .ok_or_else(|| format!("persistentvolume {volume:?} not found"))?;
    Ok(driver_of(&found["spec"]))
}

fn wants(context: &AttemptContext<'_>, driver: &str, audience: &str) -> Result<bool, String> {
    let found = (context.stored)("storage.k8s.io", "csidrivers", "", driver)
        .ok_or_else(|| format!("csidriver.storage.k8s.io {driver:?} not found"))?;
    let mut requests = list(&found["spec"], "tokenRequests");
    Ok(requests.any(|request| request["audience"].as_str().unwrap_or_default() == audience))
}
