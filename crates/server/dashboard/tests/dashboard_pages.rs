//! The pages and their sessions, as a browser and as an attacker would ask for them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use lazaret_dashboard::{
    Dashboard, LOGIN_SECONDS_MAX, SESSION_IDLE_SECONDS_MAX, SESSION_SECONDS_MAX, SessionEnd, Transport,
    assets, bundle,
};
use serde_json::Value;

type Pages = Dashboard<String>;

/// Bytes of a first visit, compressed.
const PAGE_BYTES_MAX: usize = 66_000;
/// Bytes of the cores for the browser, loaded when a user asks for the effects of a taint.
const MODULE_BYTES_MAX: usize = 700 << 10;

fn pages() -> Pages {
    Dashboard::new(Transport::Tls, 7443)
}

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    list.iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::try_from(*value).unwrap()))
        .collect()
}

fn ask(pages: &Pages, now: u64, method: &str, path: &str, list: &[(&'static str, &str)]) -> Response<Bytes> {
    pages.answer(now, &method.parse().unwrap(), path, &headers(list)).unwrap()
}

struct Browser {
    cookie: String,
    secret: String,
}

/// Signs in at `now` with a token of that instant.
fn sign_in(pages: &Pages, now: u64) -> Browser {
    let token = pages.invite(now, "kubernetes-admin".to_owned());
    let answer = ask(pages, now, "POST", "/ui/login", &[("lazaret-login", &token)]);
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["user"], "kubernetes-admin");
    Browser { cookie, secret: body["secret"].as_str().unwrap().to_owned() }
}

fn user(pages: &Pages, now: u64, browser: &Browser) -> Option<String> {
    let shown = headers(&[("cookie", &browser.cookie), ("lazaret-dashboard", &browser.secret)]);
    pages.visit(now, &shown).unwrap_or_default().map(|visit| visit.user)
}

/// The end of a session, as a watch in it gets it.
fn end(pages: &Pages, now: u64, browser: &Browser) -> SessionEnd {
    let shown = headers(&[("cookie", &browser.cookie), ("lazaret-dashboard", &browser.secret)]);
    pages.visit(now, &shown).unwrap().unwrap().end
}

#[test]
fn what_goes_on_in_a_session_ends_with_it() {
    let pages = pages();
    let (mine, other) = (sign_in(&pages, 0), sign_in(&pages, 0));
    let (watching, elsewhere) = (end(&pages, 1, &mine), end(&pages, 1, &other));
    let both = [("cookie", mine.cookie.as_str()), ("lazaret-dashboard", mine.secret.as_str())];
    assert_eq!(ask(&pages, 2, "POST", "/ui/logout", &both).status(), 200);
    assert!(watching.is_reached() && !elsewhere.is_reached(), "signing out ends one session");

    let idle = end(&pages, 10, &other);
    pages.end_old_sessions(10 + SESSION_IDLE_SECONDS_MAX - 1);
    assert!(!idle.is_reached());
    pages.end_old_sessions(10 + SESSION_IDLE_SECONDS_MAX);
    assert!(idle.is_reached() && elsewhere.is_reached(), "nothing was asked for an hour");

    let old = sign_in(&pages, 0);
    let mut ends = Vec::new();
    for now in (0..SESSION_SECONDS_MAX).step_by(1_000) {
        ends.push(end(&pages, now, &old));
    }
    pages.end_old_sessions(SESSION_SECONDS_MAX);
    assert!(ends.iter().all(SessionEnd::is_reached), "a session has an end");

    let first = sign_in(&pages, SESSION_SECONDS_MAX);
    let displaced = end(&pages, SESSION_SECONDS_MAX, &first);
    for _ in 0..256 {
        sign_in(&pages, SESSION_SECONDS_MAX + 1);
    }
    assert!(displaced.is_reached(), "a session that makes room for newer ones");
}

#[test]
fn a_token_begins_one_session_and_not_two() {
    let pages = pages();
    let token = pages.invite(0, "a".to_owned());
    assert_eq!(ask(&pages, 0, "POST", "/ui/login", &[("lazaret-login", &token)]).status(), 200);
    assert_eq!(ask(&pages, 0, "POST", "/ui/login", &[("lazaret-login", &token)]).status(), 401);
    for wrong in ["", "x", &"x".repeat(100_000)] {
        assert_eq!(ask(&pages, 0, "POST", "/ui/login", &[("lazaret-login", wrong)]).status(), 401);
    }
    assert_eq!(ask(&pages, 0, "POST", "/ui/login", &[]).status(), 401);
}

#[test]
fn tokens_and_sessions_end_with_time() {
    let pages = pages();
    let token = pages.invite(0, "a".to_owned());
    let late = ask(&pages, LOGIN_SECONDS_MAX, "POST", "/ui/login", &[("lazaret-login", &token)]);
    assert_eq!(late.status(), 401, "a token that is too old");
    let browser = sign_in(&pages, 0);
    assert!(user(&pages, SESSION_IDLE_SECONDS_MAX - 1, &browser).is_some());
    assert!(
        user(&pages, 2 * SESSION_IDLE_SECONDS_MAX - 1, &browser).is_none(),
        "idle since the last request"
    );
    let busy = sign_in(&pages, 0);
    let mut now = 0;
    while now + 1_000 < SESSION_SECONDS_MAX {
        now += 1_000;
        assert!(user(&pages, now, &busy).is_some(), "{now}");
    }
    assert!(user(&pages, SESSION_SECONDS_MAX, &busy).is_none(), "a session has an end");
}

#[test]
fn cookie_and_secret_count_only_together() {
    let pages = pages();
    let (mine, other) = (sign_in(&pages, 0), sign_in(&pages, 0));
    assert_eq!(user(&pages, 1, &mine).as_deref(), Some("kubernetes-admin"));
    let alone = headers(&[("cookie", &mine.cookie)]);
    assert!(pages.visit(1, &alone).unwrap().is_none(), "another site can make a browser send the cookie");
    for (cookie, secret) in [
        ("", mine.secret.as_str()),
        (mine.cookie.as_str(), other.secret.as_str()),
        (mine.cookie.as_str(), ""),
        (mine.cookie.as_str(), "session"),
        ("__Host-lazaret-7443=x", mine.secret.as_str()),
        ("__Host-lazaret-7444=x", mine.secret.as_str()),
    ] {
        let shown = headers(&[("cookie", cookie), ("lazaret-dashboard", secret)]);
        assert!(pages.visit(1, &shown).is_err(), "{cookie} {secret}");
    }
    let stray = format!("a=b; {}; c=d", mine.cookie);
    let shown = headers(&[("cookie", &stray), ("lazaret-dashboard", &mine.secret)]);
    assert!(pages.visit(1, &shown).unwrap().is_some(), "other cookies do no harm");
}

#[test]
fn another_site_gets_no_session() {
    let pages = pages();
    let browser = sign_in(&pages, 0);
    let cookie = browser.cookie.as_str();
    for more in [
        &[("sec-fetch-site", "cross-site"), ("lazaret-dashboard", "session")][..],
        &[("sec-fetch-site", "same-site"), ("lazaret-dashboard", "session")][..],
        &[("origin", "https://evil.example"), ("host", "127.0.0.1:7443"), ("lazaret-dashboard", "session")][..],
        &[("origin", "null"), ("host", "127.0.0.1:7443"), ("lazaret-dashboard", "session")][..],
        &[][..],
    ] {
        let mut shown = vec![("cookie", cookie)];
        shown.extend_from_slice(more);
        assert_eq!(ask(&pages, 1, "GET", "/ui/session", &shown).status(), 403, "{more:?}");
    }
    let token = pages.invite(1, "a".to_owned());
    let forged = [("lazaret-login", token.as_str()), ("sec-fetch-site", "cross-site")];
    assert_eq!(ask(&pages, 1, "POST", "/ui/login", &forged).status(), 403);
    let own = [("cookie", cookie), ("lazaret-dashboard", "session"), ("sec-fetch-site", "same-origin")];
    let answer = ask(&pages, 1, "GET", "/ui/session", &own);
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["secret"], browser.secret.as_str(), "a new tab of the page goes on");
}

#[test]
fn signing_out_ends_the_session() {
    let pages = pages();
    let browser = sign_in(&pages, 0);
    let cookie_alone = [("cookie", browser.cookie.as_str())];
    assert_eq!(ask(&pages, 1, "POST", "/ui/logout", &cookie_alone).status(), 401);
    assert!(user(&pages, 1, &browser).is_some(), "a forged request does not sign anybody out");
    let both = [("cookie", browser.cookie.as_str()), ("lazaret-dashboard", browser.secret.as_str())];
    let answer = ask(&pages, 1, "POST", "/ui/logout", &both);
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert!(user(&pages, 1, &browser).is_none());
}

#[test]
fn what_waits_and_what_lasts_is_bounded() {
    let pages = pages();
    let first = pages.invite(0, "first".to_owned());
    for at in 0..100 {
        pages.invite(at, "more".to_owned());
    }
    assert_eq!(ask(&pages, 100, "POST", "/ui/login", &[("lazaret-login", &first)]).status(), 401);
    let oldest = sign_in(&pages, 100);
    for _ in 0..1_000 {
        sign_in(&pages, 101);
    }
    assert!(user(&pages, 102, &oldest).is_none(), "the idle one goes first");
}

#[test]
fn cookies_are_for_the_page_alone() {
    let pages = pages();
    let token = pages.invite(0, "a".to_owned());
    let answer = ask(&pages, 0, "POST", "/ui/login", &[("lazaret-login", &token)]);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    for word in ["__Host-lazaret-7443=", "Path=/", "HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains(&token));
    let loopback: Pages = Dashboard::new(Transport::Loopback, 8001);
    let token = loopback.invite(0, "a".to_owned());
    let answer = ask(&loopback, 0, "POST", "/ui/login", &[("lazaret-login", &token)]);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("lazaret-8001=") && !cookie.contains("Secure"), "{cookie}");
}

#[test]
fn every_answer_keeps_others_out() {
    let pages = pages();
    let mut paths: Vec<String> = assets().iter().map(|asset| format!("/ui/{}", asset.name)).collect();
    paths.extend(["/ui", "/ui/", "/ui/nothing", "/ui/session", "/ui/../secret"].map(str::to_owned));
    for path in paths {
        let answer = ask(&pages, 0, "GET", &path, &[]);
        let policy = answer.headers()["content-security-policy"].to_str().unwrap();
        for word in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]
        {
            assert!(policy.contains(word), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"), "{policy}");
        assert_eq!(answer.headers()["x-frame-options"], "DENY", "{path}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers()["referrer-policy"], "no-referrer", "{path}");
        assert!(!answer.headers().contains_key("access-control-allow-origin"), "{path}");
    }
}

#[test]
fn files_are_compressed_and_known_by_their_tag() {
    let pages = pages();
    for asset in assets() {
        let path = format!("/ui/{}", asset.name);
        let plain = ask(&pages, 0, "GET", &path, &[]);
        assert!(!plain.headers().contains_key("content-encoding"), "{path}");
        assert!(!plain.body().is_empty() && plain.body()[..2] != [0x1f, 0x8b], "{path}");
        let best = ask(&pages, 0, "GET", &path, &[("accept-encoding", "gzip, deflate, br, zstd")]);
        match asset.brotli() {
            Some(brotli) => {
                assert_eq!(best.headers()["content-encoding"], "br", "{path}");
                assert!(*best.body() == brotli && brotli.len() < asset.packed().len(), "{path}");
            }
            None => assert_eq!(best.headers()["content-encoding"], "gzip", "{path}"),
        }
        assert_eq!(best.headers()["vary"], "Accept-Encoding", "{path}");
        let packed = ask(&pages, 0, "GET", &path, &[("accept-encoding", "br;q=0, gzip;q=0.8")]);
        assert_eq!(packed.headers()["content-encoding"], "gzip");
        assert_eq!(packed.body()[..2], [0x1f, 0x8b], "{path}");
        let tag = packed.headers()["etag"].to_str().unwrap().to_owned();
        let known = ask(&pages, 0, "GET", &path, &[("if-none-match", &tag)]);
        assert_eq!((known.status().as_u16(), known.body().len()), (304, 0), "{path}");
    }
    assert_eq!(ask(&pages, 0, "GET", "/ui/nothing.js", &[]).status(), 404);
    assert_eq!(ask(&pages, 0, "POST", "/ui/app.js", &[]).status(), 405);
}

#[test]
fn the_page_is_small_and_needs_nobody_else() {
    let mut whole = 0;
    for asset in assets() {
        if asset.name == "whatif.wasm" {
            assert!(asset.packed().len() < MODULE_BYTES_MAX, "{} bytes", asset.packed().len());
            assert_eq!(&asset.bytes()[..4], b"\0asm");
        } else {
            whole += asset.packed().len();
        }
        let Ok(text) = String::from_utf8(asset.bytes().to_vec()) else { continue };
        for word in [
            "https://",
            "http://",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            let allowed = ["http://www.w3.org/2000/svg"];
            let rest = allowed.iter().fold(text.clone(), |text, one| text.replace(one, ""));
            assert!(!rest.contains(word), "{} has {word}", asset.name);
        }
        if asset.name.ends_with(".html") {
            let inline =
                text.split("<script").skip(1).any(|tag| !tag.split('>').next().unwrap().contains("src="));
            assert!(!inline && !text.contains(" style=") && !text.contains(" onclick"));
            // The one style in it is the one that the policy names.
            let [_, style] = text.split("<style>").collect::<Vec<_>>()[..] else { panic!("{text}") };
            let style = style.split("</style>").next().unwrap();
            let hash = STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, style.as_bytes()));
            let answer = ask(&pages(), 0, "GET", "/ui/", &[]);
            let policy = answer.headers()["content-security-policy"].to_str().unwrap();
            assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
        }
    }
    assert!(whole < PAGE_BYTES_MAX, "{whole} bytes");
}

#[test]
fn modules_come_after_those_they_need() {
    let modules = [
        ("main.js", "import { a } from \"./a-b.js\";\nimport { c } from \"./c.js\";\nrun(a, c);\n"),
        ("a-b.js", "import { c } from \"./c.js\";\nexport const a = c + 1;\n"),
        ("c.js", "export const c = 1;\n"),
    ];
    let text = bundle("main.js", &modules).unwrap();
    let places = ["// c.js", "// a-b.js", "// main.js"].map(|one| text.find(one).unwrap());
    assert!(places.is_sorted(), "{text}");
    assert_eq!(text.matches("const module_c =").count(), 1);
    assert!(text.contains("const { c } = module_c;\nconst a = c + 1;\nreturn { a };"), "{text}");
}

#[test]
fn what_cannot_be_bundled_says_so() {
    let circle = [("a.js", "import { b } from \"./b.js\";\n"), ("b.js", "import { a } from \"./a.js\";\n")];
    assert_eq!(bundle("a.js", &circle), Err("a.js needs itself".to_owned()));
    assert_eq!(bundle("c.js", &circle), Err("there is no c.js".to_owned()));
    assert!(bundle("a.js", &[("a.js", "export default 1;\n")]).is_err());
}

#[test]
fn comments_with_lines_of_their_own_stay_here() {
    let source = "// File.\n/** One. */\n/**\n * Several.\n * import { x } from \"./x.js\";\n */\n  // Inside.\nconst a = \"// no comment\"; // after\n\
        /** @type {B} */ (b).c();\nconst d = `/* no comment */`;\n";
    let text = bundle("a.js", &[("a.js", source)]).unwrap();
    let kept =
        "const a = \"// no comment\"; // after\n/** @type {B} */ (b).c();\nconst d = `/* no comment */`;\n";
    assert_eq!(text, format!("// a.js\nconst module_a = (() => {{\n{kept}return {{  }};\n}})();\n"));
    // A line that looks like a comment may be part of a text, or hide code.
    for doubtful in ["const a = `\n// text\n`;\n", "/** never closed\n", "/* two\nlines */ code();\n"] {
        let refused = bundle("a.js", &[("a.js", doubtful)]).unwrap_err();
        assert!(refused.starts_with("a.js: "), "{refused}");
    }
}

/// A module that is left out, or written in a way that the bundle does not know, leaves an empty page.
#[test]
fn every_module_is_in_the_page() {
    let app = assets().iter().find(|asset| asset.name == "app.js").unwrap();
    let text = String::from_utf8(app.bytes().to_vec()).unwrap();
    assert!(!text.contains("\nimport ") && !text.contains("\nexport "));
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let is_served = assets().iter().any(|asset| asset.name == name);
        assert!(!name.ends_with(".js") || is_served || text.contains(&format!("// {name}\n")), "{name}");
    }
}

#[test]
fn browsers_are_led_to_the_page_and_clients_are_not() {
    let pages = pages();
    let html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let answer = ask(&pages, 0, "GET", "/", &[("accept", html)]);
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (302, &HeaderValue::from_static("/ui/"))
    );
    for accept in ["application/json", "*/*", "application/vnd.kubernetes.protobuf"] {
        assert!(pages.answer(0, &Method::GET, "/", &headers(&[("accept", accept)])).is_none(), "{accept}");
    }
    for path in ["/api", "/apis/resource.k8s.io/v1/resourceslices", "/uix", "/version"] {
        assert!(pages.answer(0, &Method::GET, path, &headers(&[("accept", html)])).is_none(), "{path}");
    }
}
