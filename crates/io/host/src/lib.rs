//! The `Host` header of a request: there is one, and it can name a host.
//!
//! Two servers behind each other that read different ones of two headers answer for different hosts; a name with other characters may mean
//! something else in a log or an address. Servers in Go refuse the same requests.
//!
//! **Invariant.** Knows the version and the headers of a request and nothing else.

use std::fmt;

use http::{HeaderMap, Version, header::HOST};

/// Why a request is answered with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// HTTP/1.1 requires one.
    Missing,
    /// There are several.
    TooMany,
    /// It has characters that no host has.
    Malformed,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing required Host header",
            Self::TooMany => "too many Host headers",
            Self::Malformed => "malformed Host header",
        })
    }
}

impl std::error::Error for HostError {}

/// Looks at the `Host` header of a request.
///
/// # Errors
/// When it is missing in HTTP/1.1, there are several, or it cannot name a host.
pub fn check(version: Version, headers: &HeaderMap) -> Result<(), HostError> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Over HTTP/2 the name is in the address.
        (None, _) if version == Version::HTTP_11 => Err(HostError::Missing),
        (None, _) => Ok(()),
        (Some(host), None) if host.as_bytes().iter().copied().all(can_name_a_host) => Ok(()),
        (Some(_), None) => Err(HostError::Malformed),
        (Some(_), Some(_)) => Err(HostError::TooMany),
    }
}

/// The characters of names, addresses and ports (RFC 3986, `host` and `port`).
fn can_name_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_request_has_one_host() {
        for (version, hosts, expected) in [
            (Version::HTTP_11, &["127.0.0.1:7443"][..], Ok(())),
            (Version::HTTP_11, &["[::1]:7443"], Ok(())),
            (Version::HTTP_11, &["a-b.example_c"], Ok(())),
            (Version::HTTP_11, &[""], Ok(())),
            (Version::HTTP_11, &[], Err(HostError::Missing)),
            (Version::HTTP_10, &[], Ok(())),
            (Version::HTTP_2, &[], Ok(())),
            (Version::HTTP_11, &["a", "a"], Err(HostError::TooMany)),
            (Version::HTTP_10, &["a", "b"], Err(HostError::TooMany)),
            (Version::HTTP_2, &["a", "b"], Err(HostError::TooMany)),
            (Version::HTTP_11, &["a/b"], Err(HostError::Malformed)),
            (Version::HTTP_11, &["a b"], Err(HostError::Malformed)),
            (Version::HTTP_11, &["a@b"], Err(HostError::Malformed)),
            (Version::HTTP_2, &["<a>"], Err(HostError::Malformed)),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            assert_eq!(check(version, &headers), expected, "{version:?} {hosts:?}");
        }
    }
}
