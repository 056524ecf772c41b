use lazaret_json::{Value, json};
use lazaret_kinds::admission::ReviewVersion::{V1, V1Beta1};

use super::response::{patch, read, verify};

fn review(response: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[test]
fn answers_are_held_against_what_was_asked() {
    let good = json!({"uid": "u", "allowed": true});
    assert!(verify(review(&good), "u", V1, false).unwrap().allowed);
    for (response, mutating, wanted) in [
        (Value::Null, false, "webhook response was absent"),
        (json!({"uid": "v"}), false, "expected response.uid=\"u\", got \"v\""),
        (json!({"allowed": true}), false, "expected response.uid=\"u\", got \"\""),
        (json!({"uid": "u", "allowed": "yes"}), false, "response.allowed must be true or false, not \"yes\""),
        (json!({"uid": "u", "patch": "W10="}), false, "validating webhook may not return response.patch"),
        (
            json!({"uid": "u", "patchType": "JSONPatch"}),
            false,
            "validating webhook may not return response.patchType",
        ),
        (
            json!({"uid": "u", "patch": "W10="}),
            true,
            "webhook returned response.patch but not response.patchType",
        ),
        (
            json!({"uid": "u", "patchType": "JSONPatch"}),
            true,
            "webhook returned response.patchType but not response.patch",
        ),
        (
            json!({"uid": "u", "patch": "W10=", "patchType": ""}),
            true,
            "webhook returned invalid response.patchType of \"\"",
        ),
        (json!({"uid": "u", "status": "no"}), false, "response.status must be an object"),
        (json!({"uid": "u", "warnings": [1]}), false, "response.warnings must be a list of strings"),
        (
            json!({"uid": "u", "auditAnnotations": {"k": 1}}),
            false,
            "response.auditAnnotations must be a map of strings",
        ),
    ] {
        assert_eq!(verify(review(&response), "u", V1, mutating).unwrap_err(), wanted, "{response}");
    }
    let other = json!({"apiVersion": "v1", "kind": "Pod", "response": good});
    let wanted = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=Pod";
    assert_eq!(verify(other, "u", V1, false).unwrap_err(), wanted);
}

#[test]
fn answers_in_v1beta1_are_held_against_less() {
    let answer = json!({"response": {"allowed": true, "patch": "W10="}});
    let read = verify(answer.clone(), "u", V1Beta1, true).unwrap();
    assert_eq!((read.allowed, read.patch_type.as_str(), read.patch.as_str()), (true, "JSONPatch", "W10="));
    let read = verify(answer, "u", V1Beta1, false).unwrap();
    assert_eq!((read.patch_type.as_str(), read.patch.as_str()), ("", ""));
}

#[test]
fn a_refusal_to_answer_is_said_as_kubernetes_says_it() {
    for (status, body, wanted, code) in [
        (500, "boom", "an error on the server (\"boom\") has prevented the request from succeeding", 500),
        (500, "", "an error on the server (\"unknown\") has prevented the request from succeeding", 500),
        (404, "x", "the server could not find the requested resource", 404),
        (403, "not you", "not you", 403),
        (307, "", "the server responded with the status code 307 but did not return more information", 307),
        (400, r#"{"kind":"Status","message":"said so","code":422}"#, "said so", 422),
    ] {
        let error = read(status, body.as_bytes(), V1).unwrap_err();
        assert_eq!((error.why.as_str(), error.code), (wanted, code), "{status} {body}");
    }
    assert!(
        read(200, b"garbage", V1).unwrap_err().why.starts_with("couldn't get version/kind; json parse error")
    );
    assert_eq!(read(200, b"{}", V1).unwrap_err().why, "Object 'Kind' is missing in '{}'");
    assert!(read(200, b"[1]", V1).is_err());
    assert!(read(200, "[".repeat(100_000).as_bytes(), V1).is_err(), "nesting is limited");
}

#[test]
fn patches_are_decoded_or_refused() {
    assert_eq!(patch(""), Ok(None));
    assert_eq!(patch("W10="), Ok(None), "a patch without operations changes nothing");
    assert!(patch("e30=").unwrap_err().contains("list of operations"));
    assert!(patch("no base64").is_err());
}
