//! Requests through the rules, and through the decisions of a controller.

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::{Value, json};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::{
    CLIENT_SIGNER, CertificateRequest, CertificateStep, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER,
    is_garbage, lifetime_seconds, next_step,
};
use crate::{
    Errors,
    testing::{NOW, Outcome, World, kind, set},
};

/// `O=developers, O=auditors, CN=alice`.
const TWO_GROUPS: &str = include_str!("testdata/two-groups.csr");

fn pem(common_name: &str, organization: &str, names: &[SanType]) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if !organization.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.subject_alt_names = names.to_vec();
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn object(signer: &str, pem: &str, usages: &[&str]) -> Value {
    json!({
        "metadata": {"name": "x", "creationTimestamp": NOW},
        "spec": {"signerName": signer, "request": STANDARD.encode(pem), "usages": usages, "username": "mallory"},
    })
}

const CLIENT: &[&str] = &["client auth", "digital signature"];
const SERVING: &[&str] = &["server auth", "digital signature", "key encipherment"];

fn node_request() -> Value {
    object(KUBELET_CLIENT_SIGNER, &pem("system:node:a", "system:nodes", &[]), CLIENT)
}

fn create(object: &Value) -> Outcome {
    let mut world = World::new();
    world.user.name = "system:bootstrap:abcdef".into();
    world.user.groups = vec!["system:bootstrappers".into()];
    world.create(kind("certificates.k8s.io", "certificatesigningrequests"), object.clone())
}

fn approve(old: &Value, new: Value) -> Outcome {
    let kind = kind("certificates.k8s.io", "certificatesigningrequests");
    World::new().context(|context| {
        let (mut object, mut errors) = (new, Errors::new());
        kind.rules.prepare_approval(&mut object, old, context);
        kind.rules.validate_approval(&object, old, context, &mut errors);
        Outcome { object, errors }
    })
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Test", "message": "for a test"})
}

#[test]
fn the_server_says_who_asks_and_that_nothing_is_decided() {
    let mut asked = node_request();
    asked["spec"]["groups"] = json!(["system:masters"]);
    asked["spec"]["extra"] = json!({"a": ["b"]});
    asked["spec"]["uid"] = "7".into();
    asked["status"] = json!({"conditions": [condition("Approved")], "certificate": "eA=="});
    let stored = create(&asked).ok();
    assert_eq!(stored["spec"]["username"], "system:bootstrap:abcdef");
    assert_eq!(stored["spec"]["groups"], json!(["system:bootstrappers"]));
    assert_eq!((stored["spec"].get("extra"), stored["spec"].get("uid")), (None, None));
    assert_eq!(stored["status"], json!({}));
}

#[test]
fn a_request_is_checked_field_by_field() {
    let good = node_request();
    let stranger = pem("a", "b", &[]);
    // The signature of one request under another one.
    let mut bytes =
        STANDARD.decode(stranger.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let forged = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        STANDARD.encode(&bytes)
    );
    for (pointer, value, expected) in [
        ("/spec/request", json!(""), &["spec.request Invalid"][..]),
        ("/spec/request", json!("%"), &["spec.request Invalid"]),
        (
            "/spec/request",
            json!(STANDARD.encode("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")),
            &["spec.request Invalid"],
        ),
        ("/spec/request", json!(STANDARD.encode(&forged)), &["spec.request Invalid"]),
        ("/spec/usages", json!([]), &["spec.usages Required"]),
        ("/spec/usages", json!(["client auth", "sign"]), &["spec.usages[1] NotSupported"]),
        ("/spec/usages", json!(["client auth", "client auth"]), &["spec.usages[1] Duplicate"]),
        ("/spec/signerName", json!(""), &["spec.signerName Required"]),
        ("/spec/signerName", json!("kubernetes.io/legacy-unknown"), &["spec.signerName Invalid"]),
        ("/spec/signerName", json!("example.com"), &["spec.signerName Invalid"]),
        ("/spec/signerName", json!("a/b"), &["spec.signerName Invalid"]),
        ("/spec/signerName", json!("example.com/a/b"), &["spec.signerName Invalid"]),
        ("/spec/signerName", json!("example.com/A"), &["spec.signerName Invalid"]),
        ("/spec/signerName", json!("example.com/a.b"), &[]),
        ("/spec/expirationSeconds", json!(599), &["spec.expirationSeconds Invalid"]),
        ("/spec/expirationSeconds", json!(600), &[]),
    ] {
        assert_eq!(create(&set(&good, pointer, value.clone())).wrong(), expected, "{pointer} {value}");
    }
}

#[test]
fn approval_adds_one_decision_that_stays() {
    let stored = create(&node_request()).ok();
    let with = |conditions: Value| set(&stored, "/status/conditions", conditions);
    let approved = approve(&stored, with(json!([condition("Approved")]))).ok();
    assert_eq!(approved["status"]["conditions"][0]["lastUpdateTime"], NOW);
    assert_eq!(approved["status"]["conditions"][0]["lastTransitionTime"], NOW);
    let both = with(json!([condition("Approved"), condition("Denied")]));
    assert_eq!(approve(&stored, both.clone()).wrong(), ["status.conditions Invalid"]);
    assert_eq!(approve(&approved, both).wrong(), ["status.conditions Invalid"]);
    assert_eq!(approve(&approved, stored.clone()).wrong(), ["status.conditions Forbidden"]);
    let doubtful = json!([{"type": "Approved", "status": "False"}]);
    assert_eq!(approve(&stored, with(doubtful)).wrong(), ["status.conditions[0].status NotSupported"]);
    let twice = json!([condition("Approved"), condition("Approved")]);
    assert_eq!(approve(&stored, with(twice)).wrong(), ["status.conditions[1].type Duplicate"]);
    // Nothing else changes there.
    let mut more = with(json!([condition("Approved")]));
    more["spec"]["signerName"] = "example.com/mine".into();
    more["status"]["certificate"] = "eA==".into();
    let written = approve(&stored, more).ok();
    assert_eq!(written["spec"], stored["spec"]);
    assert_eq!(written["status"].get("certificate"), None);
}

#[test]
fn the_status_takes_a_certificate_once_and_no_approval() {
    let kind = kind("certificates.k8s.io", "certificatesigningrequests");
    let world = World::new();
    let stored = create(&node_request()).ok();
    let approval = set(&stored, "/status/conditions", json!([condition("Approved")]));
    assert_eq!(world.status(kind, &stored, approval.clone()).wrong(), ["status.conditions Forbidden"]);
    assert_eq!(
        world.update(kind, &stored, approval).ok()["status"],
        json!({}),
        "not through the main endpoint"
    );
    let junk = set(&stored, "/status/certificate", json!("eA=="));
    assert_eq!(world.status(kind, &stored, junk).wrong(), ["status.certificate Invalid"]);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
    let signed = set(&stored, "/status/certificate", json!(STANDARD.encode(&certificate)));
    let signed = world.status(kind, &stored, signed).ok();
    let again =
        set(&signed, "/status/certificate", json!(STANDARD.encode(format!("{certificate}{certificate}"))));
    assert_eq!(world.status(kind, &signed, again).wrong(), ["status.certificate Forbidden"]);
    let failed = set(&signed, "/status/conditions", json!([condition("Failed")]));
    let failed = world.status(kind, &signed, failed).ok();
    assert_eq!(world.status(kind, &failed, signed).wrong(), ["status.conditions Forbidden"]);
    assert_eq!(world.row(kind, &failed)[4], "Condition=Pending,Failed,Issued");
}

#[test]
fn only_certificates_of_nodes_for_themselves_are_approved_automatically() {
    let asks = |object: &Value| match next_step(object) {
        CertificateStep::Ask(approvals) => approvals.iter().map(|approval| approval.subresource).collect(),
        other @ (CertificateStep::Wait | CertificateStep::Sign(_) | CertificateStep::Refuse(_)) => {
            assert_eq!(other, CertificateStep::Wait);
            Vec::new()
        }
    };
    let node = node_request();
    assert_eq!(asks(&node), ["nodeclient"]);
    assert_eq!(asks(&set(&node, "/spec/username", json!("system:node:a"))), ["selfnodeclient", "nodeclient"]);
    assert_eq!(asks(&set(&node, "/status/conditions", json!([condition("Denied")]))), [] as [&str; 0]);
    let address = [SanType::IpAddress("192.0.2.1".parse().unwrap())];
    let name = [SanType::DnsName("a.example.com".try_into().unwrap())];
    let own = SanType::DnsName("a".try_into().unwrap());
    let serving = |names: &[SanType]| {
        let object = object(KUBELET_SERVING_SIGNER, &pem("system:node:a", "system:nodes", names), SERVING);
        set(&object, "/spec/username", json!("system:node:a"))
    };
    assert_eq!(asks(&serving(std::slice::from_ref(&own))), ["selfnodeserver"]);
    for object in [
        serving(&address),
        serving(&name),
        {
            let service = [SanType::DnsName("hook.ns.svc".try_into().unwrap())];
            let pem = pem("system:node:hook.ns.svc", "system:nodes", &service);
            set(
                &object(KUBELET_SERVING_SIGNER, &pem, SERVING),
                "/spec/username",
                json!("system:node:hook.ns.svc"),
            )
        },
        serving(&[own.clone(), name[0].clone()]),
        serving(&[own.clone(), address[0].clone()]),
        serving(&[own.clone(), own.clone()]),
        set(&serving(std::slice::from_ref(&own)), "/spec/username", json!("system:node:b")),
        object(KUBELET_SERVING_SIGNER, &pem("system:node:a", "system:nodes", &address), SERVING),
        object(CLIENT_SIGNER, &pem("system:node:a", "system:nodes", &[]), CLIENT),
        object("example.com/mine", &pem("system:node:a", "system:nodes", &[]), CLIENT),
        object(KUBELET_CLIENT_SIGNER, &pem("system:node:a", "system:masters", &[]), CLIENT),
        object(KUBELET_CLIENT_SIGNER, &pem("a", "system:nodes", &[]), CLIENT),
        object(KUBELET_CLIENT_SIGNER, &pem("system:node:a", "system:nodes", &name), CLIENT),
        object(KUBELET_CLIENT_SIGNER, &pem("system:node:a", "system:nodes", &[]), SERVING),
    ] {
        assert_eq!(next_step(&object), CertificateStep::Wait, "{object}");
    }
}

#[test]
fn each_signer_has_its_own_rules() {
    let step = |signer: &str, pem: &str, usages: &[&str]| {
        let approved =
            set(&object(signer, pem, usages), "/status/conditions", json!([condition("Approved")]));
        match next_step(&approved) {
            CertificateStep::Sign(_) => "sign".to_owned(),
            CertificateStep::Refuse(why) => why,
            other @ (CertificateStep::Wait | CertificateStep::Ask(_)) => format!("{other:?}"),
        }
    };
    let address = [SanType::IpAddress("192.0.2.1".parse().unwrap())];
    let (mail, uri) = (
        [SanType::Rfc822Name("a@example.com".try_into().unwrap())],
        [SanType::URI("https://a.example.com".try_into().unwrap())],
    );
    let name = [SanType::DnsName("a.example.com".try_into().unwrap())];
    let node = |names: &[SanType]| pem("system:node:a", "system:nodes", names);
    for (signer, pem, usages, expected) in [
        (CLIENT_SIGNER, pem("alice", "developers", &[]), CLIENT, "sign"),
        (CLIENT_SIGNER, pem("alice", "", &[]), &["client auth"], "sign"),
        (CLIENT_SIGNER, pem("alice", "", &[]), SERVING, "invalid usage for client certificate: server auth"),
        (
            CLIENT_SIGNER,
            pem("alice", "", &[]),
            &["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (KUBELET_CLIENT_SIGNER, node(&[]), CLIENT, "sign"),
        (
            KUBELET_CLIENT_SIGNER,
            node(&[]),
            &["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (KUBELET_CLIENT_SIGNER, node(&address), CLIENT, "IP subjectAltNames are not allowed"),
        (KUBELET_CLIENT_SIGNER, node(&name), CLIENT, "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT_SIGNER, node(&mail), CLIENT, "Email subjectAltNames are not allowed"),
        (KUBELET_CLIENT_SIGNER, node(&uri), CLIENT, "URI subjectAltNames are not allowed"),
        (
            KUBELET_CLIENT_SIGNER,
            pem("system:node:a", "system:masters", &[]),
            CLIENT,
            "subject organization is not system:nodes",
        ),
        (
            KUBELET_CLIENT_SIGNER,
            pem("a", "system:nodes", &[]),
            CLIENT,
            "subject common name does not begin with system:node:",
        ),
        (KUBELET_SERVING_SIGNER, node(&address), SERVING, "sign"),
        (KUBELET_SERVING_SIGNER, node(&name), &["server auth", "digital signature"], "sign"),
        (KUBELET_SERVING_SIGNER, node(&[]), SERVING, "DNS or IP subjectAltName is required"),
        (
            KUBELET_SERVING_SIGNER,
            node(&address),
            CLIENT,
            "usages did not match [digital signature key encipherment server auth]",
        ),
        ("example.com/mine", node(&[]), CLIENT, "Wait"),
    ] {
        assert_eq!(step(signer, &pem, usages), expected, "{signer} {usages:?}");
    }
}

#[test]
fn all_organizations_of_a_subject_are_read() {
    let request = CertificateRequest::parse(TWO_GROUPS.as_bytes()).unwrap();
    assert_eq!(request.common_name, "alice");
    assert_eq!(request.organizations, ["developers", "auditors"]);
}

#[test]
fn a_lifetime_is_what_was_asked_for_within_bounds() {
    let year = 365 * 24 * 3_600;
    for (asked, expected) in
        [(None, year), (Some(1), 600), (Some(3_600), 3_600), (Some(i64::from(i32::MAX)), year)]
    {
        assert_eq!(lifetime_seconds(&json!({"spec": {"expirationSeconds": asked}})), expected, "{asked:?}");
    }
}

#[test]
fn old_requests_are_garbage() {
    let at = |hours: i64, seconds: i64| {
        let begin: jiff::Timestamp = NOW.parse().unwrap();
        jiff::Timestamp::from_second(begin.as_second() + hours * 3_600 + seconds).unwrap()
    };
    let timed = |kind: &str| {
        let mut condition = condition(kind);
        condition["lastUpdateTime"] = NOW.into();
        json!({"conditions": [condition]})
    };
    let mut issued = timed("Approved");
    issued["certificate"] = STANDARD.encode("x").into();
    for (status, hours) in [
        (json!({}), 24),
        (timed("Denied"), 1),
        (timed("Failed"), 1),
        (timed("Approved"), 24),
        (issued.clone(), 1),
    ] {
        let object = json!({"metadata": {"creationTimestamp": NOW}, "status": status});
        assert!(!is_garbage(&object, at(hours, 0), |_| false), "{object}");
        assert!(is_garbage(&object, at(hours, 1), |_| false), "{object}");
    }
    assert!(is_garbage(&json!({"status": issued}), at(0, 0), |_| true), "its certificate has expired");
}
