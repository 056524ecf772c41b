//! `kubectl device check`.

use serde_json::{Value, json};

use super::{
    Session,
    check_installation::installation_facts,
    incidents::list as list_incidents,
    load::{Need, load},
};
use crate::{
    Console, Error, Verdict,
    api::{DryRun, Resource, Served},
    args::CheckArgs,
    output::{Tint, count, structured},
    view::{Check, CheckState, Facts, Permission, checks, incident_checks, installation, unread_checks},
};

const REVIEWS: Resource = Resource {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "selfsubjectaccessreviews",
    kind: "SelfSubjectAccessReview",
    namespaced: false,
};
const DRA: &str = "resource.k8s.io";
/// Permissions that the commands need: verb, group, resource, and whether it is to act.
const PERMISSIONS: [(&str, &str, &str, bool); 13] = [
    ("list", DRA, "resourceslices", false),
    ("list", DRA, "resourceclaims", false),
    ("list", DRA, "deviceclasses", false),
    ("list", DRA, "devicetaintrules", false),
    ("watch", DRA, "resourceslices", false),
    ("list", "", "pods", false),
    ("list", "", "nodes", false),
    ("list", "", "events", false),
    ("create", DRA, "devicetaintrules", true),
    ("patch", DRA, "devicetaintrules", true),
    ("delete", DRA, "devicetaintrules", true),
    ("create", "", "events", true),
    ("watch", "", "pods", true),
];

pub(super) async fn run(session: &mut Session<'_>, args: CheckArgs) -> Result<Verdict, Error> {
    let served = session.served().await?;
    let facts = facts(session, &served).await?;
    let mut cluster =
        load(session, Need { pods: true, nodes: true, outlook: true, ..Need::default() }).await?.cluster;
    let mut found = checks(&mut cluster, &facts, session.now());
    let unread = unread_checks(&cluster);
    let of_devices = found.iter().rposition(|check| unread.iter().any(|row| row.section == check.section));
    let place = of_devices.map_or(found.len(), |last| last + 1);
    found.splice(place..place, unread);
    let about = installation_facts(session, &served).await?;
    found.extend(incident_checks(incidents(session).await?.as_deref(), about.policies.as_deref()));
    found.extend(installation(&about, session.now()));
    let failed = found.iter().filter(|check| check.state == CheckState::Failed).count();
    let warned = found.iter().filter(|check| check.state == CheckState::Warning).count();
    match args.output.structured() {
        Some(form) => structured(session.console, &json!({"ok": failed == 0, "checks": found}), form)?,
        None => print(session.console, &found, failed, warned)?,
    }
    Ok(if failed == 0 { Verdict::Yes } else { Verdict::No })
}

/// All incidents: none where the kind is not served, nothing where this user may not read them.
async fn incidents(session: &Session<'_>) -> Result<Option<Vec<Value>>, Error> {
    match list_incidents(session).await {
        Ok((all, _)) => Ok(Some(all)),
        Err(Error::NotFound { .. }) => Ok(Some(Vec::new())),
        Err(Error::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn print(console: &mut Console, checks: &[Check], failed: usize, warned: usize) -> Result<(), Error> {
    let colours = console.colours();
    let mut text = String::new();
    let mut section = "";
    for check in checks {
        if check.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = check.section;
            text.push_str(&format!("{gap}{section}\n{}\n", "-".repeat(section.len())));
        }
        let sign = match check.state {
            CheckState::Ok => Tint::Good.paint("√", colours),
            CheckState::Skipped => "?".to_owned(),
            CheckState::Warning => Tint::Careful.paint("‼", colours),
            CheckState::Failed => Tint::Bad.paint("×", colours),
        };
        let detail = if check.detail.is_empty() { String::new() } else { format!(": {}", check.detail) };
        text.push_str(&format!("{sign} {}{detail}\n", check.name));
        if !check.hint.is_empty() {
            text.push_str(&format!("    {}\n", check.hint));
        }
    }
    text.push_str(&match (failed, warned) {
        (0, 0) => "\nNo problems found.\n".to_owned(),
        (0, warned) => format!("\nNo failures, {}.\n", count(warned, "warning")),
        (failed, warned) => format!("\n{} and {}.\n", count(failed, "failure"), count(warned, "warning")),
    });
    console.print(&text)
}

async fn facts(session: &mut Session<'_>, served: &Served) -> Result<Facts, Error> {
    let mut permissions = Vec::new();
    for (verb, group, resource, to_act) in PERMISSIONS {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
        });
        let allowed = match session.api.create(&REVIEWS, "", &review, DryRun::None).await {
            Ok(answer) => answer["status"]["allowed"].as_bool(),
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(_) => None,
        };
        permissions.push(Permission { verb, group, resource, to_act, allowed });
    }
    Ok(Facts {
        version: served.version.text.clone(),
        versions: served.versions.clone(),
        rules: served.rules.map(|rules| rules.version.to_owned()),
        gates: session.gates().await,
        permissions,
    })
}
