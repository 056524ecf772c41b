//! Addresses of webhooks.

/// An absolute URL in its parts, as Go's `net/url` takes it apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty if there is none.
    pub scheme: String,
    /// The part before the `@`.
    pub user: Option<String>,
    /// The host without brackets.
    pub host: String,
    /// The port, if there is one.
    pub port: Option<u16>,
    /// The path as it is written.
    pub path: String,
    /// The part after the `?`.
    pub query: String,
    /// The part after the `#`.
    pub fragment: String,
}

impl Url {
    /// Takes a text apart.
    ///
    /// # Errors
    /// Why it is no URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("parse {text:?}: {why}"));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return refused("net/url: invalid control character in URL");
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some(("", _)) => return refused("missing protocol scheme"),
            Some((scheme, after)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), after),
            Some((first, _)) if !first.contains(['/', '?']) => {
                return refused("first path segment in URL cannot contain colon");
            }
            Some(_) | None => (String::new(), rest),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (fragment, query) = (fragment.to_owned(), query.to_owned());
        let Some(rest) = rest.strip_prefix("//") else {
            return Ok(Self { scheme, path: rest.to_owned(), query, fragment, ..Self::default() });
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, place) =
            authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, after)) => {
                    (host, after.strip_prefix(':').or(Some("").filter(|_| after.is_empty())))
                }
                None => return refused("missing ']' in host"),
            },
            None => place.split_once(':').map_or((place, Some("")), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
                Ok(port) => Some(port),
                Err(_) => return refused(&format!("invalid port {:?} after host", format!(":{digits}"))),
            },
            Some(other) => return refused(&format!("invalid port {:?} after host", format!(":{other}"))),
            None => return refused("invalid port after host"),
        };
        if let Some(odd) = host.chars().find(|odd| " \"<>\\^`{|}%".contains(*odd)) {
            return refused(&format!("invalid character {:?} in host name", odd.to_string()));
        }
        Ok(Self {
            scheme,
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query,
            fragment,
        })
    }

    /// Host and port as they are written.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}
