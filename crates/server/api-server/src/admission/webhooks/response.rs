//! The answer of a webhook: parsed, and checked against the request.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lazaret_json::Value;
use lazaret_kinds::admission::ReviewVersion;
use lazaret_schema::{Finding, builtin, check, parse_json};

/// The content of an answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Response {
    pub(super) allowed: bool,
    /// A Status, or null.
    pub(super) status: Value,
    /// As it is encoded.
    pub(super) patch: String,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<(String, String)>,
}

/// Why something is no answer, and with which code it counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadError {
    pub(super) why: String,
    pub(super) code: u16,
}

/// Reads the body of an answer as a review.
pub(super) fn read(status: u16, body: &[u8], version: ReviewVersion) -> Result<Value, ReadError> {
    if !(200..=206).contains(&status) {
        return Err(unexpected(status, body));
    }
    let refused = |why: String| ReadError { why, code: 503 };
    let value = parse_json(body)
        .map_err(|error| refused(format!("couldn't get version/kind; json parse error: {error}")))?
        .value;
    if !value.is_object() {
        return Err(refused("couldn't get version/kind; json parse error: not an object".to_owned()));
    }
    // Nothing below may be taken for what it is not; v1 holds the type of the review itself against what it expects.
    for (field, named) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if value[field].as_str().is_none_or(str::is_empty) && version == ReviewVersion::V1 {
            return Err(refused(format!("Object '{named}' is missing in '{}'", shortened(body))));
        }
    }
    Ok(value)
}

/// Bytes of a webhook's answer that are repeated in an error.
const QUOTED_BYTES_MAX: usize = 2_048;

fn shortened(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES_MAX)]).into_owned();
    text.trim_end_matches('\u{fffd}').to_owned()
}

/// The error of an answer that is not a success.
fn unexpected(code: u16, body: &[u8]) -> ReadError {
    let status = parse_json(body).map(|parsed| parsed.value).unwrap_or_default();
    if status["kind"] == "Status" && status["status"] != "Success" {
        let said = u16::try_from(status["code"].as_i64().unwrap_or(0)).unwrap_or(0);
        let why = status["message"].as_str().unwrap_or_default().to_owned();
        return ReadError { why, code: if said == 0 { code } else { said } };
    }
    let text = shortened(body);
    let said = text.trim();
    let said = if said.is_empty() { "unknown" } else { said };
    let why = match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if said == "unknown" => {
            "the server was unable to respond with a content type that the client supports".to_owned()
        }
        406 => said.to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    };
    ReadError { why, code }
}

/// Holds a review against what was asked.
pub(super) fn verify(
    review: Value,
    uid: &str,
    version: ReviewVersion,
    mutating: bool,
) -> Result<Response, String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    let strict = version == ReviewVersion::V1;
    let said = response["uid"].as_str().unwrap_or_default();
    if strict && said != uid {
        return Err(format!("expected response.uid={uid:?}, got {said:?}"));
    }
    let (api_version, kind) =
        (review["apiVersion"].as_str().unwrap_or_default(), review["kind"].as_str().unwrap_or_default());
    if strict && (api_version, kind) != (version.api_version(), "AdmissionReview") {
        return Err(format!(
            "expected webhook response of {}, Kind=AdmissionReview, got {api_version}, Kind={kind}",
            version.api_version()
        ));
    }
    let allowed = &response["allowed"];
    let allowed = if allowed.is_null() { Some(false) } else { allowed.as_bool() }
        .ok_or_else(|| format!("response.allowed must be true or false, not {allowed}"))?;
    let text = |field: &str| {
        let said = &response[field];
        match said.as_str() {
            None if said.is_null() => Ok(None),
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(format!("response.{field} must be a string")),
        }
    };
    let (patch, patch_type) = (text("patch")?.unwrap_or_default(), text("patchType")?);
    let patch_type = match (mutating, strict, patch.is_empty(), patch_type) {
        (false, true, false, _) => return Err("validating webhook may not return response.patch".to_owned()),
        (false, true, true, Some(_)) => {
            return Err("validating webhook may not return response.patchType".to_owned());
        }
        (true, true, false, None) => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, true, true, Some(_)) => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, true, false, Some(said)) if said.is_empty() => {
            return Err(format!("webhook returned invalid response.patchType of {said:?}"));
        }
        (true, true, false, Some(said)) => said,
        (true, false, false, _) => "JSONPatch".to_owned(),
        (..) => String::new(),
    };
    Ok(Response {
        allowed,
        status: status(&response["status"])?,
        patch: if mutating { patch } else { String::new() },
        patch_type,
        warnings: texts(response, "warnings")?,
        annotations: annotations(&response["auditAnnotations"])?,
    })
}

/// A Status with the fields that one has.
fn status(said: &Value) -> Result<Value, String> {
    let mut status = said.clone();
    if status.is_null() {
        return Ok(status);
    }
    if !status.is_object() {
        return Err("response.status must be an object".to_owned());
    }
    if let Some(shape) = builtin().find("meta/v1.Status") {
        for finding in check(builtin(), shape, &mut status, None, true) {
            if let Finding::Kind { path, expected, found } = finding {
                return Err(format!("response.status.{path}: must be {expected}, not {found}"));
            }
        }
    }
    Ok(status)
}

fn texts(response: &Value, field: &str) -> Result<Vec<String>, String> {
    let refused = || format!("response.{field} must be a list of strings");
    let said = &response[field];
    if said.is_null() {
        return Ok(Vec::new());
    }
    let list = said.as_array().ok_or_else(refused)?;
    list.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(refused)).collect()
}

fn annotations(said: &Value) -> Result<Vec<(String, String)>, String> {
    let refused = || "response.auditAnnotations must be a map of strings".to_owned();
    if said.is_null() {
        return Ok(Vec::new());
    }
    let map = said.as_object().ok_or_else(refused)?;
    map.iter()
        .map(|(key, value)| Ok((key.to_string(), value.as_str().ok_or_else(refused)?.to_owned())))
        .collect()
}

/// The operations of a patch, if there are any.
pub(super) fn patch(encoded: &str) -> Result<Option<Value>, String> {
    if encoded.is_empty() {
        return Ok(None);
    }
    let text = STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    let patch = parse_json(&text).map_err(|error| error.to_string())?.value;
    match patch.as_array().map(|list| list.is_empty()) {
        Some(true) => Ok(None),
        Some(false) => Ok(Some(patch)),
        None => Err("a JSON patch must be a list of operations".to_owned()),
    }
}
