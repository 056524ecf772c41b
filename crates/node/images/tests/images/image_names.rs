//! Names of images, as Docker's own parser reads them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use lazaret_images::Reference;

const DIGEST: &str = "sha256:7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa";

#[test]
fn names_are_completed() {
    let digest = format!("busybox@{DIGEST}");
    let both = format!("busybox:1.36@{DIGEST}");
    let canonical = format!("docker.io/library/busybox@{DIGEST}");
    for (name, whole) in [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:v1", "localhost:5000/app:v1"),
        ("127.0.0.1:5000/a/b/c", "127.0.0.1:5000/a/b/c:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("[2001:db8::1]/app", "[2001:db8::1]/app:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("Example.com/app", "Example.com/app:latest"),
        ("UPPER/app", "UPPER/app:latest"),
        ("a__b/c-.d", "error: invalid reference format"),
        ("a__b/c--d.e_f", "docker.io/a__b/c--d.e_f:latest"),
        ("app:V1.0_x-y", "docker.io/library/app:V1.0_x-y"),
        (&digest, &canonical),
        // The digest says which it is.
        (&both, &canonical),
        ("", "error: invalid reference format"),
        (":tag", "error: invalid reference format"),
        ("app:", "error: invalid reference format"),
        ("app:-x", "error: invalid reference format"),
        ("app:a:b", "error: invalid reference format"),
        ("a//b", "error: invalid reference format"),
        ("a/", "error: invalid reference format"),
        ("/a", "error: invalid reference format"),
        ("../../etc", "error: invalid reference format"),
        ("app name", "error: invalid reference format"),
        ("a___b", "error: invalid reference format"),
        ("example.com:port/app", "error: invalid reference format"),
        ("-example.com/app", "error: invalid reference format"),
        ("https://example.com/app", "error: invalid reference format"),
        ("[::1/app", "error: invalid reference format"),
        ("App", "error: invalid reference format: repository name (library/App) must be lowercase"),
        ("app@sha256:abc", "error: invalid reference format"),
        ("app@md5:7cc4b5aefd1d0cadf8d97d4350462ba5", "error: unsupported digest algorithm"),
        ("app@sha256:7cc4b5aefd1d0cadf8d97d4350462ba5", "error: invalid checksum digest length"),
    ] {
        let read = match Reference::parse(name) {
            Ok(reference) => reference.to_string(),
            Err(error) => {
                let text = error.to_string();
                let prefix = format!("couldn't parse image name {name:?}: ");
                format!("error: {}", text.strip_prefix(&prefix).unwrap())
            }
        };
        assert_eq!(read, whole, "{name}");
    }
}

#[test]
fn lengths_are_limited() {
    let hex = &DIGEST["sha256:".len()..];
    let error = Reference::parse(hex).unwrap_err().to_string();
    assert!(error.ends_with("cannot specify 64-byte hexadecimal strings"), "{error}");
    assert!(Reference::parse(&format!("example.com/{}", "a".repeat(255))).is_ok());
    let error = Reference::parse(&format!("example.com/{}", "a".repeat(256))).unwrap_err().to_string();
    assert!(error.ends_with("repository name must not be more than 255 characters"), "{error}");
    assert!(Reference::parse(&format!("a:{}", "t".repeat(128))).is_ok());
    assert!(Reference::parse(&format!("a:{}", "t".repeat(129))).is_err());
    let error = Reference::parse(&"a/".repeat(1 << 20)).unwrap_err().to_string();
    assert!(error.len() < 2_000, "an error repeats {} bytes", error.len());
}

proptest::proptest! {
    /// An accepted name reads the same when it is written, and has nothing in it that a URL or a path could misread.
    #[test]
    fn what_is_accepted_is_harmless(name in "[a-zA-Z0-9._:/@\\[\\]%?#-]{0,40}") {
        if let Ok(reference) = Reference::parse(&name) {
            let whole = reference.to_string();
            proptest::prop_assert_eq!(Reference::parse(&whole).unwrap().to_string(), whole.clone());
            proptest::prop_assert!(!whole.contains(['%', '?', '#']), "{}", whole);
            proptest::prop_assert!(reference.repository().split('/').all(|part| part != ".." && part != "." && !part.is_empty()));
        }
    }
}
