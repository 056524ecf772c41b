//! Checks of text by the name of its format. An unknown format accepts any text.

use std::{net::IpAddr, str::FromStr};

use base64::{Engine, engine::general_purpose::STANDARD};

/// Whether `text` is of the format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "ipv4" => IpAddr::from_str(text).is_ok_and(|address| address.is_ipv4()),
        "ipv6" => IpAddr::from_str(text).is_ok_and(|address| address.is_ipv6()),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => STANDARD.decode(text).is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "duration" => is_duration(text),
        "hexcolor" => is_hex_color(text),
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "k8s-short-name" => lazaret_model::validate_dns_label(text).is_ok(),
        "k8s-long-name" => lazaret_model::validate_dns_subdomain(text).is_ok(),
        _ => true,
    }
}

/// Whether values are held against the format; others are mentioned in a warning.
pub fn is_known(format: &str) -> bool {
    const KNOWN: &[&str] = &[
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "date-time",
        "int32",
        "int64",
        "float",
        "double",
        "k8s-short-name",
        "k8s-long-name",
    ];
    format.is_empty() || KNOWN.contains(&format)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let most = match IpAddr::from_str(address) {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}

fn is_mac(text: &str) -> bool {
    let separated = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * width / 2;
        matches!(bytes, 6 | 8 | 20) && parts.iter().all(|part| part.len() == width && is_hex(part))
    };
    separated(':', 2) || separated('-', 2) || separated('.', 4)
}

fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    (scheme || text.starts_with('/')) && !text.contains(|c: char| c.is_ascii_control() || c == ' ')
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').map_or(text, |(_, rest)| rest.trim_end_matches('>'));
    address.rsplit_once('@').is_some_and(|(local, host)| {
        !local.is_empty() && !host.is_empty() && !address.contains(char::is_whitespace)
    })
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && text.trim_end_matches('.').split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes_stand_well = text.match_indices('-').all(|(at, _)| {
        let before = text[..at].chars().filter(|c| *c != '-').count();
        [8, 12, 16, 20].contains(&before)
    });
    let variant = digits.chars().nth(16).is_some_and(|c| "89abAB".contains(c));
    digits.len() == 32
        && is_hex(&digits)
        && dashes_stand_well
        && !text.contains("--")
        && version
            .is_none_or(|version| digits.chars().nth(12) == Some(version) && (version == '3' || variant))
}

/// `1h30m`, `-1.5s`, as Go writes it.
fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.parse::<f64>().is_err() {
            return false;
        }
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        if !UNITS.contains(&after[..unit].trim()) {
            return false;
        }
        rest = &after[unit..];
    }
    true
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_formats() {
        for (format, good, bad) in [
            ("ipv4", "10.0.0.1", "::1"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "aa:bb:cc:00:11:22", "aa:bb"),
            ("uri", "https://example.com/x", "no scheme"),
            ("email", "a@example.com", "a.example.com"),
            ("hostname", "a-1.example.com", "-a"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("uuid4", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("byte", "aGk=", "a*"),
            ("date", "2026-01-31", "2026-02-30"),
            ("date-time", "2026-01-31T00:00:00Z", "2026-01-31"),
            ("duration", "1h30m", "1 hour and a half"),
            ("hexcolor", "#fff", "#ffff"),
            ("k8s-short-name", "a-b", "a.b"),
        ] {
            assert!(fits(format, good), "{format}: {good}");
            assert!(!fits(format, bad), "{format}: {bad}");
        }
        assert!(fits("made-up", "anything"));
        assert!(is_known("uri") && !is_known("made-up"));
    }
}
