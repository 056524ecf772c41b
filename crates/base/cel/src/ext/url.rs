//! URLs as Go's `net/url` reads them, because that is what decides which texts Kubernetes takes for a URL.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv6Addr;

use super::{ExtError, quote};

/// A parsed absolute URL or absolute path.
///
/// Decoded bytes that are not UTF-8 are replaced by U+FFFD: text here is always UTF-8.
/// DEVIATION(cel-words).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    host: String,
    escaped_path: String,
    raw_query: String,
    /// The normal form; two URLs are equal when it is.
    text: String,
}

/// `url(string)`.
pub(crate) fn parse(text: &str) -> Result<Url, ExtError> {
    // Two passes, as the original: the first decides whether this is a URL at all, and knows no fragment.
    validate(text)?;
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let parts = UrlParts::parse(before, ReferenceKind::Reference).map_err(|e| refuse(before, &e))?;
    let fragment = if fragment.is_empty() {
        String::new()
    } else {
        let decoded = unescape(fragment, Section::Fragment).map_err(|reason| refuse(text, &reason))?;
        let escaped = if is_valid_encoding(fragment, Section::Fragment) {
            fragment.to_owned()
        } else {
            escape(&decoded, Section::Fragment)
        };
        format!("#{escaped}")
    };
    Ok(Url {
        text: parts.write() + &fragment,
        escaped_path: parts.escaped_path(),
        scheme: parts.scheme,
        host: String::from_utf8_lossy(&parts.host).into_owned(),
        raw_query: parts.raw_query.to_owned(),
    })
}

/// `isURL(string)` and the `uri` format: why the text is no absolute URL, if it is none.
pub(crate) fn validate(text: &str) -> Result<(), ExtError> {
    UrlParts::parse(text, ReferenceKind::Request).map(|_| ()).map_err(|reason| refuse(text, &reason))
}

impl Url {
    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host with port, decoded.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Host without port and without the brackets of an IPv6 address.
    pub(crate) fn hostname(&self) -> &str {
        let (name, _) = split_host_port(&self.host);
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    /// Digits after the last colon of the host, or nothing.
    pub(crate) fn port(&self) -> &str {
        split_host_port(&self.host).1
    }

    pub(crate) fn escaped_path(&self) -> &str {
        &self.escaped_path
    }

    /// Decoded parameters; those that cannot be decoded, or hold a semicolon, are left out.
    pub(crate) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.raw_query.split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescape(key, Section::Query), unescape(value, Section::Query)) {
                parameters.entry(lossy(&key)).or_default().push(lossy(&value));
            }
        }
        parameters
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kind of reference that the text is parsed as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    /// Only absolute URLs and absolute paths; a `#` means nothing.
    Request,
    /// Any reference, already without fragment.
    Reference,
}

struct UrlParts<'a> {
    scheme: String,
    opaque: &'a str,
    user: Option<User>,
    host: Vec<u8>,
    /// The path as written, and decoded.
    raw_path: &'a str,
    path: Vec<u8>,
    raw_query: &'a str,
    has_empty_query: bool,
    has_no_authority: bool,
}

struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl<'a> UrlParts<'a> {
    fn parse(text: &'a str, context: ReferenceKind) -> Result<UrlParts<'a>, String> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("control character".to_string());
        }
        if text.is_empty() && context == ReferenceKind::Request {
            return Err("empty".to_string());
        }
        let mut parts = UrlParts {
            scheme: String::new(),
            opaque: "",
            user: None,
            host: Vec::new(),
            raw_path: "",
            path: Vec::new(),
            raw_query: "",
            has_empty_query: false,
            has_no_authority: false,
        };
        if text == "*" {
            parts.raw_path = text;
            parts.path = b"*".to_vec();
            return Ok(parts);
        }
        let (scheme, rest) = split_scheme(text)?;
        parts.scheme = scheme.to_ascii_lowercase();
        let rest = parts.take_query(rest);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                parts.opaque = rest;
                return Ok(parts);
            }
            if context == ReferenceKind::Request {
                return Err("neither a scheme nor a leading slash".to_string());
            }
            let segment = rest.split('/').next().unwrap_or_default();
            if segment.contains(':') {
                return Err("colon in the first path segment".to_string());
            }
        }
        let path = parts.take_authority(rest, context)?;
        parts.path = unescape(path, Section::Path)?;
        parts.raw_path = path;
        Ok(parts)
    }

    fn take_query(&mut self, rest: &'a str) -> &'a str {
        match rest.split_once('?') {
            None => rest,
            Some((rest, query)) => {
                self.has_empty_query = query.is_empty();
                self.raw_query = query;
                rest
            }
        }
    }

    fn take_authority(&mut self, rest: &'a str, context: ReferenceKind) -> Result<&'a str, String> {
        let has_scheme = !self.scheme.is_empty();
        let may_have = has_scheme || (context == ReferenceKind::Reference && !rest.starts_with("///"));
        match rest.strip_prefix("//") {
            Some(authority) if may_have => {
                let end = authority.find('/').unwrap_or(authority.len());
                let (authority, path) = authority.split_at(end);
                self.parse_authority(authority)?;
                Ok(path)
            }
            Some(_) | None => {
                self.has_no_authority = has_scheme && rest.starts_with('/');
                Ok(rest)
            }
        }
    }

    fn parse_authority(&mut self, authority: &str) -> Result<(), String> {
        let Some((user, host)) = authority.rsplit_once('@') else {
            self.host = parse_host(&self.scheme, authority)?;
            return Ok(());
        };
        self.host = parse_host(&self.scheme, host)?;
        if !user.bytes().all(is_user_byte) {
            return Err("bad character in the user part".to_string());
        }
        let (name, password) = match user.split_once(':') {
            None => (user, None),
            Some((name, password)) => (name, Some(password)),
        };
        self.user = Some(User {
            name: unescape(name, Section::User)?,
            password: password.map(|password| unescape(password, Section::User)).transpose()?,
        });
        Ok(())
    }

    /// The path as written when that is a fair encoding, else encoded anew.
    fn escaped_path(&self) -> String {
        if is_valid_encoding(self.raw_path, Section::Path) {
            self.raw_path.to_owned()
        } else {
            escape(&self.path, Section::Path)
        }
    }

    fn write(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(&mut out);
        } else {
            out.push_str(self.opaque);
        }
        if self.has_empty_query || !self.raw_query.is_empty() {
            out.push('?');
            out.push_str(self.raw_query);
        }
        out
    }

    fn write_hierarchy(&self, out: &mut String) {
        let path = self.escaped_path();
        let is_bare = self.host.is_empty() && self.user.is_none();
        let omits_authority = self.has_no_authority && is_bare;
        if (!self.scheme.is_empty() || !is_bare) && !omits_authority {
            if !is_bare || !self.path.is_empty() {
                out.push_str("//");
            }
            if let Some(user) = &self.user {
                out.push_str(&escape(&user.name, Section::User));
                if let Some(password) = &user.password {
                    out.push(':');
                    out.push_str(&escape(password, Section::User));
                }
                out.push('@');
            }
            out.push_str(&escape(&self.host, Section::Host));
        }
        // A path that starts with two slashes must not turn into an authority when read again.
        match path.strip_prefix('/') {
            Some(rest) if omits_authority && rest.starts_with('/') => {
                out.push_str("%2F");
                out.push_str(rest);
            }
            Some(_) | None => out.push_str(&path),
        }
    }
}

/// Sections of a URL, each with its own reserved characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

impl Section {
    /// Bytes that need no escape, besides letters, digits and `-._~`.
    fn plain(self) -> &'static [u8] {
        match self {
            Section::Path => b"$&+,/:;=@",
            Section::Host | Section::Zone => b"!\"$&'()*+,:;<=>[]",
            Section::User => b"$&+,;=",
            Section::Query => b"",
            Section::Fragment => b"!$&()*+,/:;=?@",
        }
    }

    fn must_escape(self, byte: u8) -> bool {
        !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || self.plain().contains(&byte))
    }
}

fn refuse(text: &str, reason: &str) -> ExtError {
    ExtError(format!("parse {}: {reason}", quote::go(text)))
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing scheme before the colon".to_string()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return parse_bracketed(host),
        Some(_) => return Err("bracket inside the host".to_string()),
        None => {}
    }
    // Other schemes use comma-separated lists of host:port; for them only the last colon starts a port.
    let strict = scheme == "http" || scheme == "https";
    let colon = if strict { host.find(':') } else { host.rfind(':') };
    if let Some(at) = colon
        && !is_optional_port(&host[at..])
    {
        return Err(format!("bad port {}", quote::go(&host[at..])));
    }
    unescape(host, Section::Host)
}

fn parse_bracketed(host: &str) -> Result<Vec<u8>, String> {
    let close = host.rfind(']').ok_or("no closing bracket in the host")?;
    let (name, port) = (&host[1..close], &host[close + 1..]);
    if !is_optional_port(port) {
        return Err(format!("bad port {}", quote::go(port)));
    }
    let zone_at = name.find("%25").unwrap_or(name.len());
    let mut decoded = unescape(&name[..zone_at], Section::Host)?;
    decoded.extend(unescape(&name[zone_at..], Section::Zone)?);
    if !is_ipv6_with_zone(&decoded) {
        return Err("brackets need an IPv6 address".to_string());
    }
    let mut whole = Vec::with_capacity(decoded.len() + 2 + port.len());
    whole.push(b'[');
    whole.extend(decoded);
    whole.push(b']');
    whole.extend(port.bytes());
    Ok(whole)
}

fn is_ipv6_with_zone(bytes: &[u8]) -> bool {
    let address = match bytes.iter().position(|b| *b == b'%') {
        Some(at) if at + 1 == bytes.len() => return false,
        Some(at) => &bytes[..at],
        None => bytes,
    };
    core::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn split_host_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(at) if is_optional_port(&host[at..]) => (&host[..at], &host[at + 1..]),
        Some(_) | None => (host, ""),
    }
}

fn is_valid_encoding(text: &str, section: Section) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !section.must_escape(byte))
}

fn escape(bytes: &[u8], section: Section) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if section.must_escape(*byte) {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(*byte));
        }
    }
    out
}

fn unescape(text: &str, section: Section) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        match byte {
            b'%' => {
                let decoded = hex_pair(bytes.get(at + 1..at + 3))
                    .filter(|decoded| may_be_escaped(*decoded, section))
                    .ok_or_else(|| {
                        let end = (at + 3).min(bytes.len());
                        format!("bad escape {}", quote::go_bytes(&bytes[at..end]))
                    })?;
                out.push(decoded);
                at += 3;
            }
            b'+' if section == Section::Query => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                let in_host = matches!(section, Section::Host | Section::Zone);
                if in_host && byte.is_ascii() && section.must_escape(byte) {
                    return Err(format!("bad character {} in the host", quote::go_bytes(&[byte])));
                }
                out.push(byte);
                at += 1;
            }
        }
    }
    Ok(out)
}

/// A host may escape only non-ASCII bytes and `%`; a zone only what could stand there unescaped, `%` and space.
fn may_be_escaped(decoded: u8, section: Section) -> bool {
    match section {
        Section::Host => decoded >= 0x80 || decoded == b'%',
        Section::Zone => decoded == b'%' || decoded == b' ' || !Section::Host.must_escape(decoded),
        Section::Path | Section::User | Section::Query | Section::Fragment => true,
    }
}

fn hex_pair(pair: Option<&[u8]>) -> Option<u8> {
    let [high, low] = pair? else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
