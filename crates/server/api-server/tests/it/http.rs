//! The API over TLS: authentication and identity.

use jiff::Timestamp;
use lazaret_json::json;
use lazaret_server::server_certificate;

use crate::https::{Cluster, now};

#[tokio::test]
async fn nobody_gets_in_without_credentials_except_to_health_and_version() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.send(None, None, "GET", "/healthz", "").await.0, 200);
    assert_eq!(cluster.send(None, None, "GET", "/version", "").await.1["minor"], "37");
    let (code, answer) = cluster.send(None, None, "GET", "/api/v1/pods", "").await;
    assert_eq!((code, answer["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(cluster.send(None, None, "GET", "/apis", "").await.0, 403);
    assert_eq!(cluster.send(None, Some("nonsense"), "GET", "/healthz", "").await.0, 401);
}

#[tokio::test]
async fn certificates_say_who_asks_and_roles_what_they_may() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let alice = cluster.identity("alice", "people");
    assert_eq!(cluster.send(admin.as_ref(), None, "GET", "/api/v1/pods", "").await.0, 200);
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/apis", "").await.0,
        200,
        "discovery is for everybody with a name"
    );
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(cluster.send(alice.as_ref(), None, "GET", pods, "").await.0, 403);
    let binding = json!({
        "metadata": {"name": "alice"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", bindings, &binding.to_string()).await.0, 201);
    assert_eq!(cluster.send(alice.as_ref(), None, "GET", pods, "").await.0, 200, "a binding counts at once");
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/api/v1/namespaces/default/secrets", "").await.0,
        403
    );
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/api/v1/namespaces/kube-system/pods", "").await.0,
        403
    );
    assert_eq!(cluster.send(alice.as_ref(), None, "POST", pods, "{}").await.0, 403);
}

#[tokio::test]
async fn tokens_of_service_accounts_hold_as_long_as_the_account() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.send(admin.as_ref(), None, "POST", accounts, r#"{"metadata":{"name":"robot"}}"#).await;
    let (code, answer) = cluster
        .send(admin.as_ref(), None, "POST", &format!("{accounts}/robot/token"), r#"{"spec":{}}"#)
        .await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, me) = cluster.send(None, Some(&token), "POST", review, "{}").await;
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(cluster.send(None, Some(&forged), "POST", review, "{}").await.0, 401);
    cluster.send(admin.as_ref(), None, "DELETE", &format!("{accounts}/robot"), "").await;
    assert_eq!(cluster.send(None, Some(&token), "POST", review, "{}").await.0, 401, "the account is gone");
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let maps = "/api/v1/namespaces/default/configmaps";
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", maps, &deep).await.0, 400);
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", maps, "{").await.0, 400);
    let large = json!({"metadata": {"name": "x"}, "data": {"k": "x".repeat(3 << 20)}}).to_string();
    let (code, answer) = cluster.send(admin.as_ref(), None, "POST", maps, &large).await;
    assert_eq!((code, answer["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
}

#[tokio::test]
async fn acting_as_somebody_else_takes_permission_for_all_that_is_claimed() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let alice = cluster.identity("alice", "people");
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let as_robot = "Impersonate-User: system:serviceaccount:lab:robot\r\n";
    let (code, me) = cluster.send_with(admin.as_ref(), as_robot, "POST", review, "{}").await;
    assert_eq!(code, 201, "{me}");
    let info = &me["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:lab:robot");
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"])
    );
    let with_extra = "Impersonate-User: bob\r\nImpersonate-Uid: 7\r\nImpersonate-Extra-Team%2fx: a\r\n";
    let (_, me) = cluster.send_with(admin.as_ref(), with_extra, "POST", review, "{}").await;
    assert_eq!(me["status"]["userInfo"]["extra"]["team/x"], json!(["a"]));
    assert_eq!(cluster.send_with(alice.as_ref(), as_robot, "POST", review, "{}").await.0, 403);
    // Never silently oneself: that may be far more than was meant.
    let group_only = "Impersonate-Group: nobody\r\n";
    assert_eq!(cluster.send_with(admin.as_ref(), group_only, "POST", review, "{}").await.0, 400);
    let unreadable = "Impersonate-User: b\u{fc}b\r\n";
    assert_eq!(cluster.send_with(admin.as_ref(), unreadable, "POST", review, "{}").await.0, 400);
}

#[tokio::test]
async fn a_certificate_that_is_over_or_has_not_begun_is_refused_with_401() {
    let cluster = Cluster::start().await;
    let year = 365 * 24 * 3_600;
    let pods = "/api/v1/pods";
    for (name, offset, expected) in [
        ("good", 0, 200),
        ("half a year old", -year / 2, 200),
        ("over", -year - 3_600, 401),
        ("not begun", 3_600, 401),
    ] {
        let at = Timestamp::from_second(now().as_second() + offset).unwrap();
        let admin = cluster.identity_at("admin", "system:masters", at);
        let (code, answer) = cluster.send(admin.as_ref(), None, "GET", pods, "").await;
        assert_eq!(code, expected, "{name}: {answer}");
    }
    // A self-signed client does not get so far, or is refused, whatever the times say.
    let other = Cluster::start().await;
    for offset in [0, -2 * year, year] {
        let at = Timestamp::from_second(now().as_second() + offset).unwrap();
        let stranger = other.identity_at("admin", "system:masters", at);
        let (code, _) = cluster.send(stranger.as_ref(), None, "GET", pods, "").await;
        assert!(matches!(code, 0 | 401), "{offset}: {code}");
    }
}

#[tokio::test]
async fn a_running_server_takes_a_new_certificate() {
    let cluster = Cluster::start().await;
    let seen = async || {
        let stream = cluster.connect(None).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = seen().await;
    assert_eq!(seen().await, first);
    let new = server_certificate(&cluster.authority, &["localhost".to_owned()], now()).unwrap();
    cluster.tls.replace(&new).unwrap();
    let second = seen().await;
    assert_ne!(second, first);
    let mut damaged = new.clone();
    damaged.key = "nonsense".to_owned();
    assert!(cluster.tls.replace(&damaged).is_err());
    assert_eq!(seen().await, second, "the one before stays");
}

#[tokio::test]
async fn tokens_end_with_what_they_are_bound_to() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let admin = admin.as_ref();
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let node = r#"{"metadata":{"name":"n1"}}"#;
    let pod = r#"{"metadata":{"name":"p1"},"spec":{"nodeName":"n1","terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"i"}]}}"#;
    let secret = r#"{"metadata":{"name":"s1"}}"#;
    for (kind, made, body) in [
        ("Node", "/api/v1/nodes", node),
        ("Pod", "/api/v1/namespaces/default/pods", pod),
        ("Secret", "/api/v1/namespaces/default/secrets", secret),
    ] {
        let (code, object) = cluster.send(admin, None, "POST", made, body).await;
        assert_eq!(code, 201, "{object}");
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let request = json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}});
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let (code, answer) = cluster.send(admin, None, "POST", path, &request.to_string()).await;
        assert_eq!(code, 201, "{answer}");
        let token = answer["status"]["token"].as_str().unwrap().to_owned();
        assert_eq!(cluster.send(None, Some(&token), "POST", me, "{}").await.0, 201, "{kind}");
        let at = format!("{made}/{name}");
        let (code, answer) =
            cluster.send(admin, None, "DELETE", &format!("{at}?gracePeriodSeconds=0"), "").await;
        assert_eq!(code, 200, "{answer}");
        assert_eq!(cluster.send(None, Some(&token), "POST", me, "{}").await.0, 401, "{kind} is gone");
        // One of the same name is another one.
        let body = body.replace(r#""nodeName":"n1","#, "");
        assert_eq!(cluster.send(admin, None, "POST", made, &body).await.0, 201);
        assert_eq!(cluster.send(None, Some(&token), "POST", me, "{}").await.0, 401, "another {kind}");
    }
}

#[tokio::test]
async fn a_token_is_reviewed_for_the_audiences_that_are_asked_for() {
    const OWN: &str = "https://kubernetes.default.svc.cluster.local";
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let admin = admin.as_ref();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let request = json!({"spec": {"audiences": ["vault", "db", OWN]}}).to_string();
    let (_, answer) = cluster.send(admin, None, "POST", path, &request).await;
    let wide = answer["status"]["token"].as_str().unwrap().to_owned();
    let request = json!({"spec": {"audiences": ["vault"]}}).to_string();
    let (_, answer) = cluster.send(admin, None, "POST", path, &request).await;
    let narrow = answer["status"]["token"].as_str().unwrap().to_owned();
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    for (token, asked, common) in [
        (&wide, json!([]), json!([OWN])),
        (&wide, json!(["db"]), json!(["db"])),
        (&wide, json!(["x", "db", "vault"]), json!(["vault", "db"])),
        (&wide, json!(["x"]), json!(null)),
        (&narrow, json!([]), json!(null)),
        (&narrow, json!(["vault"]), json!(["vault"])),
    ] {
        let review = json!({"spec": {"token": token, "audiences": asked}}).to_string();
        let (code, answer) = cluster.send(admin, None, "POST", reviews, &review).await;
        assert_eq!(code, 201, "{answer}");
        assert_eq!(answer["status"]["audiences"], common, "{asked}");
        assert_eq!(answer["status"]["authenticated"], !common.is_null(), "{asked}");
        assert_eq!(answer["status"]["error"].is_string(), common.is_null(), "{asked}: {answer}");
    }
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(cluster.send(None, Some(&wide), "POST", me, "{}").await.0, 201);
    assert_eq!(cluster.send(None, Some(&narrow), "POST", me, "{}").await.0, 401, "meant for another");
    assert_eq!(cluster.send(admin, None, "POST", reviews, r#"{"spec":{}}"#).await.0, 400, "no token");
}
