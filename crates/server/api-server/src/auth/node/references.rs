//! Which other objects a pod or a volume names.

use lazaret_json::Value;

/// Annotation of a pod that a node made for itself.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sources of a pod's volume that need a secret, with the field that names it; all secrets are in the pod's namespace.
const POD_VOLUME_SECRETS: &[(&str, &str)] = &[
    ("azureFile", "secretName"),
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("secret", "secretName"),
    ("storageos", "secretRef"),
];

/// Sources of a persistent volume that need a secret on the node, with the field that names it, and whether a reference without a
/// namespace means the namespace of the volume's claim.
const VOLUME_SECRETS: &[(&str, &str, bool)] = &[
    ("cephfs", "secretRef", true),
    ("cinder", "secretRef", false),
    ("csi", "nodeExpandSecretRef", false),
    ("csi", "nodePublishSecretRef", false),
    ("csi", "nodeStageSecretRef", false),
    ("flexVolume", "secretRef", true),
    ("iscsi", "secretRef", true),
    ("rbd", "secretRef", true),
    ("scaleIO", "secretRef", true),
    ("storageos", "secretRef", false),
];

/// Whether a node made the pod for itself.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

/// The entries of a list, none if there is no list.
pub(crate) fn list<'a>(holder: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    holder[field].as_array().into_iter().flatten()
}

/// A text that is not empty.
pub(crate) fn text<'a>(holder: &'a Value, field: &str) -> Option<&'a str> {
    holder[field].as_str().filter(|text| !text.is_empty())
}

/// Secrets in the pod's namespace that it needs.
pub(crate) fn secrets(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let mut names: Vec<&str> =
        list(spec, "imagePullSecrets").filter_map(|reference| text(reference, "name")).collect();
    names.extend(from_containers(spec, "secretRef", "secretKeyRef"));
    for volume in list(spec, "volumes") {
        for (source, field) in POD_VOLUME_SECRETS {
            let reference = &volume[*source][*field];
            let name = reference.as_str().filter(|name| !name.is_empty());
            names.extend(name.or_else(|| text(reference, "name")));
        }
        names.extend(projected(volume).filter_map(|source| text(&source["secret"], "name")));
    }
    names
}

/// Config maps in the pod's namespace that it needs.
pub(crate) fn config_maps(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let mut names: Vec<&str> = from_containers(spec, "configMapRef", "configMapKeyRef").collect();
    for volume in list(spec, "volumes") {
        names.extend(text(&volume["configMap"], "name"));
        names.extend(projected(volume).filter_map(|source| text(&source["configMap"], "name")));
    }
    names
}

/// Claims of volumes in the pod's namespace that it needs.
pub(crate) fn volume_claims(pod: &Value) -> Vec<String> {
    list(&pod["spec"], "volumes").filter_map(|volume| volume_claim(pod, volume)).collect()
}

/// The claim that a volume of a pod stands for. A claim that is made for the pod has the pod's name in its own.
pub(crate) fn volume_claim(pod: &Value, volume: &Value) -> Option<String> {
    if let Some(name) = text(&volume["persistentVolumeClaim"], "claimName") {
        return Some(name.to_owned());
    }
    let made_for_pod = volume["ephemeral"].is_object();
    made_for_pod
        .then(|| format!("{}-{}", text(&pod["metadata"], "name").unwrap_or_default(), name_of(volume)))
}

/// Claims of devices in the pod's namespace that it needs: those it names, those made for it from templates, and the one for its extended
/// resources.
pub(crate) fn resource_claims(pod: &Value) -> Vec<&str> {
    let status = &pod["status"];
    let mut names = Vec::new();
    for entry in list(&pod["spec"], "resourceClaims").filter(|entry| !is_classic(entry)) {
        if let Some(name) = text(entry, "resourceClaimName") {
            names.push(name);
        } else if entry["resourceClaimTemplateName"].is_string() {
            let made = list(status, "resourceClaimStatuses").find(|made| made["name"] == entry["name"]);
            names.extend(made.and_then(|made| text(made, "resourceClaimName")));
        }
    }
    names.extend(text(&status["extendedResourceClaimStatus"], "resourceClaimName"));
    names
}

/// Classic claims in the pod's namespace that it needs. One that is made for the pod has the pod's name in its own.
pub(crate) fn classic_claims(pod: &Value) -> Vec<String> {
    let entries = list(&pod["spec"], "resourceClaims").filter(|entry| is_classic(entry));
    let names = entries.map(|entry| match text(entry, "classicClaimName") {
        Some(name) => name.to_owned(),
        None => format!("{}-{}", text(&pod["metadata"], "name").unwrap_or_default(), name_of(entry)),
    });
    names.collect()
}

fn is_classic(entry: &Value) -> bool {
    entry["template"].is_object() || entry["classicClaimName"].is_string()
}

/// Namespace and name of each secret that a node needs for a persistent volume.
pub(crate) fn volume_secrets(volume: &Value) -> Vec<(&str, &str)> {
    let spec = &volume["spec"];
    let claim_namespace = text(&spec["claimRef"], "namespace").unwrap_or_default();
    let mut secrets = Vec::new();
    let file = &spec["azureFile"];
    if let Some(name) = text(file, "secretName") {
        secrets.push((text(file, "secretNamespace").unwrap_or(claim_namespace), name));
    }
    for (source, field, of_claim) in VOLUME_SECRETS {
        let reference = &spec[*source][*field];
        let fallback = if *of_claim { claim_namespace } else { "" };
        if let Some(name) = text(reference, "name") {
            secrets.push((text(reference, "namespace").unwrap_or(fallback), name));
        }
    }
    secrets
}

fn name_of(entry: &Value) -> &str {
    entry["name"].as_str().unwrap_or_default()
}

fn projected(volume: &Value) -> impl Iterator<Item = &Value> {
    list(&volume["projected"], "sources")
}

/// Names that environments take their variables from: all of an object, or one key of it.
fn from_containers<'a>(
    spec: &'a Value,
    whole: &'static str,
    one_key: &'static str,
) -> impl Iterator<Item = &'a str> {
    let containers = CONTAINERS.iter().flat_map(move |field| list(spec, field));
    containers.flat_map(move |container| {
        let wholes = list(container, "envFrom").filter_map(move |source| text(&source[whole], "name"));
        let keys = list(container, "env").filter_map(move |entry| text(&entry["valueFrom"][one_key], "name"));
        wholes.chain(keys)
    })
}
