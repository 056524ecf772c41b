//! The further checks of the restricted level.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::{
    Check, CheckVersion, PodFields, Violation,
    baseline::{proc_mount, seccomp, seccomp_type},
    words::{containers, plural, quoted, setters},
};
use crate::value::{has, is_true, list, some, text, texts};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "allowPrivilegeEscalation",
        versions: &[
            CheckVersion { minor: 8, check: escalation },
            CheckVersion { minor: 25, check: |pod| if pod.is_windows() { None } else { escalation(pod) } },
        ],
        replaces: None,
    },
    Check {
        id: "capabilities_restricted",
        versions: &[
            CheckVersion { minor: 22, check: capabilities },
            CheckVersion { minor: 25, check: |pod| if pod.is_windows() { None } else { capabilities(pod) } },
        ],
        replaces: Some("capabilities_baseline"),
    },
    Check {
        id: "procMount_restricted",
        versions: &[CheckVersion { minor: 35, check: proc_mount }],
        replaces: Some("procMount"),
    },
    Check {
        id: "restrictedVolumes",
        versions: &[CheckVersion { minor: 0, check: volumes }],
        replaces: Some("hostPathVolumes"),
    },
    Check {
        id: "runAsNonRoot",
        versions: &[
            CheckVersion { minor: 0, check: non_root },
            CheckVersion { minor: 35, check: |pod| if pod.has_own_users() { None } else { non_root(pod) } },
        ],
        replaces: None,
    },
    Check {
        id: "runAsUser",
        versions: &[
            CheckVersion { minor: 23, check: user },
            CheckVersion { minor: 35, check: |pod| if pod.has_own_users() { None } else { user(pod) } },
        ],
        replaces: None,
    },
    Check {
        id: "seccompProfile_restricted",
        versions: &[
            CheckVersion { minor: 19, check: restricted_seccomp },
            CheckVersion {
                minor: 25,
                check: |pod| if pod.is_windows() { None } else { restricted_seccomp(pod) },
            },
        ],
        replaces: Some("seccompProfile_baseline"),
    },
];

const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const OTHER_VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn escalation(pod: &PodFields<'_>) -> Option<Violation> {
    let may =
        |container: &Value| container["securityContext"]["allowPrivilegeEscalation"].as_bool() != Some(false);
    let names = pod.named(may);
    (!names.is_empty()).then(|| {
        let detail =
            format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
        Violation::new("allowPrivilegeEscalation != false", detail)
    })
}

fn capabilities(pod: &PodFields<'_>) -> Option<Violation> {
    let of = |container: &Value, field: &str| -> Vec<String> {
        texts(&container["securityContext"]["capabilities"], field).map(str::to_owned).collect()
    };
    let keep = pod.named(|container| !of(container, "drop").iter().any(|name| name == "ALL"));
    let added = |container: &Value| -> Vec<String> {
        of(container, "add").into_iter().filter(|name| name != "NET_BIND_SERVICE").collect()
    };
    let add = pod.named(|container| !added(container).is_empty());
    let mut details = Vec::new();
    if !keep.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keep)));
    }
    if !add.is_empty() {
        let forbidden: BTreeSet<String> = pod.containers().flat_map(added).collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&add),
            quoted(forbidden.iter().map(String::as_str))
        ));
    }
    (!details.is_empty()).then(|| Violation::new("unrestricted capabilities", details.join("; ")))
}

fn volumes(pod: &PodFields<'_>) -> Option<Violation> {
    let bad = |volume: &&Value| !VOLUMES.iter().any(|kind| has(volume, kind));
    let volumes: Vec<&Value> = list(pod.spec, "volumes").iter().filter(bad).collect();
    if volumes.is_empty() {
        return None;
    }
    let kind =
        |volume: &&Value| OTHER_VOLUMES.iter().find(|kind| has(volume, kind)).copied().unwrap_or("unknown");
    let kinds: BTreeSet<&str> = volumes.iter().map(kind).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", volumes.len()),
        quoted(volumes.iter().map(|volume| text(volume, "name"))),
        plural("uses", "use", volumes.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(kinds)
    );
    Some(Violation::new("restricted volume types", detail))
}

fn non_root(pod: &PodFields<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |holder: &Value| holder["securityContext"]["runAsNonRoot"].as_bool();
    let explicit = pod.named(|container| said(container) == Some(false));
    if let Some(who) = setters(said(pod.spec) == Some(false), &explicit) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation::new(REASON, detail));
    }
    if is_true(pod.security(), "runAsNonRoot") {
        return None;
    }
    let silent = pod.named(|container| said(container).is_none());
    (!silent.is_empty()).then(|| {
        let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
        Violation::new(REASON, detail)
    })
}

fn user(pod: &PodFields<'_>) -> Option<Violation> {
    let root = |holder: &Value| holder["securityContext"]["runAsUser"].as_i64() == Some(0);
    let who = setters(root(pod.spec), &pod.named(root))?;
    Some(Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

fn restricted_seccomp(pod: &PodFields<'_>) -> Option<Violation> {
    if let Some(violation) = seccomp(pod) {
        return Some(violation);
    }
    if some(pod.security(), "seccompProfile").is_some() {
        return None;
    }
    let silent = pod.named(|container| seccomp_type(container).is_none());
    (!silent.is_empty()).then(|| {
        let detail = format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        );
        Violation::new("seccompProfile", detail)
    })
}
