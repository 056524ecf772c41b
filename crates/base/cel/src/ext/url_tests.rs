use super::*;
use alloc::vec;

fn url(text: &str) -> Url {
    parse(text).unwrap()
}

#[test]
fn what_is_a_url() {
    for (text, expected) in [
        ("https://user:pass@example.com:80/path?query=val#fragment", true),
        ("/absolute-path", true),
        ("*", true),
        ("mailto:a@b", true),
        ("//h/x", true),
        ("http://[::1]:80", true),
        ("http://[::ffff:1.2.3.4%25en0]", true),
        ("http://[1.2.3.4]", false),
        ("http://[fe80::1%25]", false),
        ("http://[::1", false),
        ("http://[::1]x", false),
        ("http://a[::1]", false),
        ("mongodb://a:1,b:2", true),
        ("http://a:1:2", false),
        ("http://a:x", false),
        ("https://a:80 ", false),
        ("../relative-path", false),
        ("a/b", false),
        ("", false),
        (":x", false),
        ("1a:b", false),
        ("http://h ost", false),
        ("http://h%41", false),
        ("http://h%e4", true),
        ("http://a%25b", true),
        ("http://h/%zz", false),
        ("http://h/%4", false),
        ("http://h?q#%zz", true),
        ("http://x@y@z", true),
        ("http://x y@z", false),
        ("http://é@z", false),
        ("http://h/\u{7f}", false),
        ("http://h/\n", false),
    ] {
        assert_eq!(validate(text).is_ok(), expected, "{text}");
    }
    assert!(parse("http://h?q#%zz").is_err());
}

#[test]
fn parts() {
    let url = url("HTTPS://user:pass@Example.com:80/path?query=val#fragment");
    assert_eq!(url.scheme(), "https");
    assert_eq!(url.host(), "Example.com:80");
    assert_eq!(url.hostname(), "Example.com");
    assert_eq!(url.port(), "80");
    assert_eq!(url.escaped_path(), "/path");
}

#[test]
fn hosts_and_ports() {
    for (text, host, hostname, port) in [
        ("http://[fe80::1%25en0]:8/", "[fe80::1%en0]:8", "fe80::1%en0", "8"),
        ("http://[::1]", "[::1]", "::1", ""),
        ("http://h:/x", "h:", "h", ""),
        ("http://é.example", "é.example", "é.example", ""),
        ("mongodb://a:1,b:2", "a:1,b:2", "a:1,b", "2"),
        ("mailto:a@b?x", "", "", ""),
        ("//h/x", "h", "h", ""),
        ("///h/x", "", "", ""),
        ("/path", "", "", ""),
    ] {
        let url = url(text);
        assert_eq!((url.host(), url.hostname(), url.port()), (host, hostname, port), "{text}");
    }
}

#[test]
fn paths_keep_a_fair_encoding() {
    for (text, path) in [
        ("http://h/a%2fb", "/a%2fb"),
        ("http://h/a%2fb c", "/a/b%20c"),
        ("http://h/%C3%A9", "/%C3%A9"),
        ("http://h/é", "/%C3%A9"),
        ("http://h/a[b]!", "/a[b]!"),
        ("/a//b", "/a//b"),
        ("http://h", ""),
        ("*", "*"),
    ] {
        assert_eq!(url(text).escaped_path(), path, "{text}");
    }
}

#[test]
fn queries_skip_what_cannot_be_decoded() {
    let query = url("http://h/?x=1&x=2&y;z=1&k+1=%41&%zz=1&&flag#f").query();
    let expected: Vec<(&str, Vec<&str>)> =
        vec![("flag", vec![""]), ("k 1", vec!["A"]), ("x", vec!["1", "2"])];
    let found: Vec<(&str, Vec<&str>)> = query
        .iter()
        .map(|(key, values)| (key.as_str(), values.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(found, expected);
    assert!(url("/x?").query().is_empty());
    assert_eq!(url("/x?a=%ff").query()["a"], vec!["\u{fffd}"]);
}

#[test]
fn normal_form_decides_equality() {
    for (text, normal) in [
        ("HTTP://a/", "http://a/"),
        ("http:/a", "http:/a"),
        ("http:///a", "http:///a"),
        ("http:////a", "http:////a"),
        ("mailto:a@b?x", "mailto:a@b?x"),
        ("/x?", "/x?"),
        ("http://u:p%40@h/a b?q#f r", "http://u:p%40@h/a%20b?q#f%20r"),
        ("http://%e4h/", "http://%E4h/"),
        ("//h/x", "//h/x"),
    ] {
        assert_eq!(url(text).to_string(), normal);
    }
}

#[test]
fn refusals_name_the_text_and_the_reason() {
    let error = validate("http://h/%zz").unwrap_err().to_string();
    assert_eq!(error, r#"parse "http://h/%zz": bad escape "%zz""#);
}
