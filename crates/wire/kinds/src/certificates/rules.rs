//! The kind itself: what the server sets, what it refuses, what each endpoint may change.

use std::{cmp::Ordering, collections::BTreeSet};

use lazaret_json::{Value, json};
use lazaret_model::{human_duration, validate_dns_label, validate_dns_subdomain};
use x509_parser::{parse_x509_certificate, pem::Pem};

use super::{CertificateRequest, conditions, decoded, has_condition};
use crate::{
    Ceiling, Column, Context, Errors, FieldProblem, Rules,
    check::not_supported,
    kind::age,
    path::Path,
    value::{list, list_mut, put, put_or_remove, remove, same, text, texts},
};

/// Requests for certificates.
#[derive(Debug)]
pub(crate) struct CertificateSigningRequest;

const EXPIRATION_SECONDS_MIN: i64 = 600;
const DOMAIN_BYTES_MAX: usize = 253;
/// A domain, a slash, a namespace, a dot and a name.
const SIGNER_NAME_BYTES_MAX: usize = DOMAIN_BYTES_MAX + 1 + 63 + 1 + 253;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Conditions that are true or absent, and never removed.
const DECISIONS: &[&str] = &["Approved", "Denied", "Failed"];
const APPROVALS: &[&str] = &["Approved", "Denied"];

/// The endpoint of a write; decides which fields may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Main,
    Approval,
    Status,
}

impl Rules for CertificateSigningRequest {
    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::CertificateRequests)
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        let (user, spec) = (context.user, &mut object["spec"]);
        put(spec, "username", user.name.as_str());
        put_or_remove(spec, "uid", (!user.uid.is_empty()).then(|| user.uid.as_str().into()));
        put_or_remove(spec, "groups", (!user.groups.is_empty()).then(|| json!(user.groups)));
        put_or_remove(spec, "extra", (!user.extra.is_empty()).then(|| json!(user.extra)));
        put(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(object, None, errors);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep(new, old, "spec");
        keep(new, old, "status");
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate_change(new, old, Endpoint::Main, errors);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        &["spec", "status.conditions"]
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep(new, old, "spec");
        for kind in APPROVALS {
            keep_conditions(new, old, kind);
        }
        fill_times(new, old, context);
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate_change(new, old, Endpoint::Status, errors);
    }

    fn prepare_approval(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        fill_times(new, old, context);
        let conditions = new["status"].get("conditions").cloned();
        keep(new, old, "spec");
        keep(new, old, "status");
        put_or_remove(&mut new["status"], "conditions", conditions);
    }

    fn validate_approval(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate_change(new, old, Endpoint::Approval, errors);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "spec.signerName").then(|| text(&object["spec"], "signerName").to_owned())
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::AGE,
            Column::text("SignerName"),
            Column::text("Requestor"),
            Column::text("RequestedDuration"),
            Column::text("Condition"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        let signer = Some(text(spec, "signerName")).filter(|name| !name.is_empty()).unwrap_or("<none>");
        let duration = spec["expirationSeconds"].as_i64().map_or_else(|| "<none>".to_owned(), human_duration);
        vec![
            age(object, context),
            signer.into(),
            text(spec, "username").into(),
            duration.into(),
            shown_condition(object).into(),
        ]
    }
}

/// `Pending`, `Approved,Issued` and the like.
fn shown_condition(object: &Value) -> String {
    let mut shown = match (has_condition(object, "Denied"), has_condition(object, "Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has_condition(object, "Failed") {
        shown.push_str(",Failed");
    }
    if !text(&object["status"], "certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

fn keep(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => put(new, field, value.clone()),
        None => remove(new, field),
    }
}

/// The conditions of one type stay as they were, unless some were added or removed: validation refuses that.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<Value> = conditions(old, kind).cloned().collect();
    if before.len() != conditions(new, kind).count() {
        return;
    }
    let mut before = before.into_iter();
    for condition in list_mut(&mut new["status"], "conditions") {
        if text(condition, "type") == kind
            && let Some(known) = before.next()
        {
            *condition = known;
        }
    }
}

/// Sets the times that a client left out.
fn fill_times(new: &mut Value, old: &Value, context: &Context<'_>) {
    let now = context.timestamp();
    for condition in list_mut(&mut new["status"], "conditions") {
        if text(condition, "lastUpdateTime").is_empty() {
            put(condition, "lastUpdateTime", now.as_str());
        }
        if text(condition, "lastTransitionTime").is_empty() {
            let known = conditions(old, text(condition, "type")).find(|known| {
                text(known, "status") == text(condition, "status")
                    && !text(known, "lastTransitionTime").is_empty()
            });
            let since =
                known.map_or_else(|| now.clone(), |known| text(known, "lastTransitionTime").to_owned());
            put(condition, "lastTransitionTime", since);
        }
    }
}

/// Validates a request. An error that the stored one already has is tolerated.
fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &object["spec"];
    // The spec never changes after it was created.
    if old.is_none() {
        validate_spec(spec, errors);
    }
    validate_conditions(object, old, errors);
    let certificate = text(&object["status"], "certificate");
    let changed = old.is_none_or(|old| text(&old["status"], "certificate") != certificate);
    if changed && let Err(why) = check_certificate(certificate) {
        errors.invalid("status.certificate", "<certificate data>", why);
    }
}

fn validate_spec(spec: &Value, errors: &mut Errors) {
    let parsed = decoded(spec, "request").ok_or_else(|| "must be base64".to_owned());
    if let Err(why) = parsed.and_then(|pem| CertificateRequest::parse(&pem)) {
        errors.invalid("spec.request", spec["request"].clone(), why);
    }
    let usages = list(spec, "usages");
    if usages.is_empty() {
        errors.required("spec.usages", "");
    }
    let mut seen = BTreeSet::new();
    for (at, usage) in texts(spec, "usages").enumerate() {
        let path = format!("spec.usages[{at}]");
        if !USAGES.contains(&usage) {
            errors.push(path.clone(), not_supported(usage, USAGES));
        }
        if !seen.insert(usage) {
            errors.push(path, FieldProblem::Duplicate(usage.into()));
        }
    }
    validate_signer_name(text(spec, "signerName"), errors);
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|asked| *asked < EXPIRATION_SECONDS_MIN)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid("spec.expirationSeconds", seconds, why);
    }
}

fn validate_signer_name(name: &str, errors: &mut Errors) {
    let path = Path::root("spec");
    let path = path.field("signerName");
    if name == LEGACY_SIGNER {
        let why = "the legacy signerName is not allowed via this API version";
        return errors.invalid(path, name, why);
    }
    signer_name(errors, &path, name);
}

/// The name of a signer: a domain and a path.
pub(crate) fn signer_name(errors: &mut Errors, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, own)) = name.split_once('/').filter(|(_, own)| !own.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, why);
    };
    if domain.len() > DOMAIN_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(DOMAIN_BYTES_MAX));
    }
    for (part, check) in [(domain, validate_dns_label as fn(&str) -> _), (own, validate_dns_subdomain)] {
        let wrong = part.split('.').find_map(|label| check(label).err().map(|why| (label, why)));
        if let Some((label, why)) = wrong {
            errors.invalid(path, part, format!("validating label {label:?}: {why}"));
        }
        if part == domain && !domain.contains('.') {
            errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
        }
    }
    if name.len() > SIGNER_NAME_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(SIGNER_NAME_BYTES_MAX));
    }
}

fn validate_conditions(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    const PATH: &str = "status.conditions";
    let both = |object: &Value| has_condition(object, "Approved") && has_condition(object, "Denied");
    if both(object) && !old.is_some_and(both) {
        let last = list(&object["status"], "conditions").iter().rev();
        let kind = last.map(|condition| text(condition, "type")).find(|kind| APPROVALS.contains(kind));
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.invalid(PATH, kind.unwrap_or_default(), why);
    }
    let mut seen = BTreeSet::new();
    for (at, condition) in list(&object["status"], "conditions").iter().enumerate() {
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            errors.required(format!("{PATH}[{at}].type"), "");
        }
        let known: &[&str] =
            if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match status {
            "" => errors.required(format!("{PATH}[{at}].status"), ""),
            status if !known.contains(&status) => {
                errors.push(format!("{PATH}[{at}].status"), not_supported(status, known));
            }
            _ => {}
        }
        if !seen.insert(kind) {
            errors.push(format!("{PATH}[{at}].type"), FieldProblem::Duplicate(kind.into()));
        }
    }
}

fn check_certificate(encoded: &str) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let bytes = decoded(&json!({"certificate": encoded}), "certificate").ok_or("must be base64")?;
    let mut blocks = 0;
    for block in Pem::iter_from_buffer(&bytes) {
        let block = block.map_err(|error| error.to_string())?;
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        parse_x509_certificate(&block.contents)
            .map_err(|error| format!("x509: malformed certificate: {error}"))?;
        blocks += 1;
    }
    if blocks == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    Ok(())
}

fn validate_change(new: &Value, old: &Value, endpoint: Endpoint, errors: &mut Errors) {
    const CONDITIONS: &str = "status.conditions";
    validate(new, Some(old), errors);
    let found = |object: &Value, kind: &str| conditions(object, kind).cloned().collect::<Vec<_>>();
    for kind in DECISIONS {
        let (before, after) = (found(old, kind), found(new, kind));
        let fixed = endpoint != Endpoint::Approval && APPROVALS.contains(kind);
        let differ = || !before.iter().zip(&after).all(|(before, after)| same(before, after));
        let what = match after.len().cmp(&before.len()) {
            Ordering::Less => "remove",
            Ordering::Greater if fixed => "add",
            Ordering::Equal if fixed && differ() => "modify",
            Ordering::Greater | Ordering::Equal => continue,
        };
        errors.forbidden(CONDITIONS, format!("updates may not {what} a condition of type {kind:?}"));
    }
    let certificate = |object: &Value| text(&object["status"], "certificate").to_owned();
    let (before, after) = (certificate(old), certificate(new));
    if before == after {
        return;
    }
    if endpoint != Endpoint::Status {
        errors.forbidden("status.certificate", "updates may not set certificate content");
    } else if !before.is_empty() {
        errors.forbidden("status.certificate", "updates may not modify existing certificate content");
    }
}
