//! How a registry wants its clients to authenticate: the header `WWW-Authenticate`.

/// The scheme of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// A longer header is ignored.
const HEADER_BYTES_MAX: usize = 8_192;

impl Challenge {
    pub(crate) fn parse(header: &str) -> Option<Self> {
        if header.len() > HEADER_BYTES_MAX {
            return None;
        }
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        for (key, value) in parameters(rest) {
            match key.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer { realm: realm?, service, scope })
    }
}

/// `KEY="VALUE",KEY=VALUE`. Values in quotes may have commas.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_matches([' ', ',']).to_owned();
        let rest = rest.trim_start();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        parameters.push((key, value.trim().to_owned()));
        text = after;
    }
    parameters
}
