use std::string::ToString;

use super::*;

type Validate = fn(&str) -> Result<(), NameError>;

#[track_caller]
fn check(validate: Validate, good: &[&str], bad: &[(&str, &str)]) {
    for text in good {
        assert_eq!(validate(text), Ok(()), "{text:?}");
    }
    for (text, wanted) in bad {
        let error = validate(text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
}

#[test]
fn dns_labels() {
    check(
        validate_dns_label,
        &["a", "0", "gpu-0", "a--b", &"a".repeat(63)],
        &[
            ("", "must not be empty"),
            ("A", "lower-case letters, digits and '-'"),
            ("-a", "at both ends"),
            ("a-", "at both ends"),
            ("a.b", "a DNS label consists of"),
            ("a_b", "a DNS label consists of"),
            ("ä", "a DNS label consists of"),
            (&"a".repeat(64), "at most 63 bytes"),
        ],
    );
}

#[test]
fn dns_subdomains() {
    check(
        validate_dns_subdomain,
        &["a", "a.b", "gpu.example.com", "1.2", &"a".repeat(253)],
        &[
            ("", "must not be empty"),
            (".a", "around each dot"),
            ("a..b", "around each dot"),
            ("a.-b", "around each dot"),
            ("Gpu.example.com", "lower-case"),
            (&"a".repeat(254), "at most 253 bytes"),
        ],
    );
}

#[test]
fn driver_names() {
    check(
        validate_driver_name,
        &["gpu.example.com", "GPU.Example.com", "a"],
        &[
            ("", "must not be empty"),
            ("a_b", "a driver name consists of"),
            (&"a".repeat(64), "at most 63 bytes"),
        ],
    );
}

#[test]
fn pool_names() {
    check(
        validate_pool_name,
        &["node-1", "rack.1/node-1", "a/b/c"],
        &[("", "must not be empty"), ("a//b", "with '/' between"), ("/a", "with '/'"), ("A", "with '/'")],
    );
}

#[test]
fn label_names() {
    check(
        validate_label_name,
        &["a", "A_b.c-d", "example.com/unhealthy", "a/b"],
        &[
            ("", "a label name must not be empty"),
            ("/a", "the part before '/' must not be empty"),
            ("a/", "a label name must not be empty"),
            ("Example.com/a", "the part before '/' consists of"),
            ("a/b/c", "at most one '/'"),
            ("-a", "at both ends"),
            ("a b", "a label name consists of"),
            (&"a".repeat(64), "at most 63 bytes"),
        ],
    );
}

#[test]
fn label_values() {
    check(
        validate_label_value,
        &["", "a", "A_b.c-d", "1"],
        &[
            ("_a", "at both ends"),
            ("a/b", "a label value consists of"),
            (&"a".repeat(64), "at most 63 bytes"),
        ],
    );
}

#[test]
fn identifiers() {
    check(
        validate_c_identifier,
        &["a", "_", "numaNode", "A_1", &"a".repeat(32)],
        &[
            ("", "must not be empty"),
            ("1a", "does not start with a digit"),
            ("a-b", "letters, digits and '_'"),
            (&"a".repeat(33), "at most 32 bytes"),
        ],
    );
}

#[test]
fn qualified_names() {
    check(
        validate_qualified_name,
        &["model", "gpu.example.com/model", "GPU.example.com/model"],
        &[
            ("", "an identifier must not be empty"),
            ("/model", "a driver name must not be empty"),
            ("gpu.example.com/", "an identifier must not be empty"),
            ("gpu_example/model", "a driver name consists of"),
            ("a/b/c", "at most one '/'"),
        ],
    );
}
