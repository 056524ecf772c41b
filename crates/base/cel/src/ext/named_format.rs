//! The named formats of `format.<name>()` and `format.named(name)`.
//!
//! `validate` answers with one message per broken rule, in our own words: how many there are, and when there are none,
//! is what Kubernetes decides.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use super::url;

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// A format with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

impl NamedFormat {
    pub(crate) const ALL: [NamedFormat; 13] = [
        NamedFormat::Dns1123Label,
        NamedFormat::Dns1123Subdomain,
        NamedFormat::Dns1035Label,
        NamedFormat::QualifiedName,
        NamedFormat::Dns1123LabelPrefix,
        NamedFormat::Dns1123SubdomainPrefix,
        NamedFormat::Dns1035LabelPrefix,
        NamedFormat::LabelValue,
        NamedFormat::Uri,
        NamedFormat::Uuid,
        NamedFormat::Byte,
        NamedFormat::Date,
        NamedFormat::Datetime,
    ];

    /// `format.named(name)`.
    pub(crate) fn by_name(name: &str) -> Option<NamedFormat> {
        NamedFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The name in `format.<name>()`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NamedFormat::Dns1123Label => "dns1123Label",
            NamedFormat::Dns1123Subdomain => "dns1123Subdomain",
            NamedFormat::Dns1035Label => "dns1035Label",
            NamedFormat::QualifiedName => "qualifiedName",
            NamedFormat::Dns1123LabelPrefix => "dns1123LabelPrefix",
            NamedFormat::Dns1123SubdomainPrefix => "dns1123SubdomainPrefix",
            NamedFormat::Dns1035LabelPrefix => "dns1035LabelPrefix",
            NamedFormat::LabelValue => "labelValue",
            NamedFormat::Uri => "uri",
            NamedFormat::Uuid => "uuid",
            NamedFormat::Byte => "byte",
            NamedFormat::Date => "date",
            NamedFormat::Datetime => "datetime",
        }
    }

    /// Length of the pattern the cost model assumes for this format.
    pub(crate) fn pattern_length(self) -> u64 {
        match self {
            NamedFormat::Dns1123Label
            | NamedFormat::Dns1035Label
            | NamedFormat::Dns1123LabelPrefix
            | NamedFormat::Dns1035LabelPrefix => 30,
            NamedFormat::Dns1123Subdomain
            | NamedFormat::QualifiedName
            | NamedFormat::Dns1123SubdomainPrefix => 60,
            NamedFormat::LabelValue => 40,
            NamedFormat::Uri => 1_103,
            NamedFormat::Uuid => 70,
            NamedFormat::Byte => 84,
            NamedFormat::Date | NamedFormat::Datetime => 71,
        }
    }

    /// Broken rules; none when the text has this format.
    pub(crate) fn validate(self, text: &str) -> Vec<String> {
        match self {
            NamedFormat::Dns1123Label => dns1123_label(text),
            NamedFormat::Dns1123LabelPrefix => dns1123_label(&finished(text)),
            NamedFormat::Dns1123Subdomain => dns1123_subdomain(text),
            NamedFormat::Dns1123SubdomainPrefix => dns1123_subdomain(&finished(text)),
            NamedFormat::Dns1035Label => dns1035_label(text),
            NamedFormat::Dns1035LabelPrefix => dns1035_label(&finished(text)),
            NamedFormat::QualifiedName => qualified_name(text),
            NamedFormat::LabelValue => label_value(text),
            NamedFormat::Uri => url::validate(text).err().map(|error| error.0).into_iter().collect(),
            NamedFormat::Uuid => unless(is_uuid(text), "not a UUID"),
            NamedFormat::Byte => unless(is_base64(text), "not base64"),
            NamedFormat::Date => unless(is_date(text), "not a date such as 2006-01-02"),
            NamedFormat::Datetime => {
                unless(is_datetime(text), "not a date and time such as 2006-01-02T15:04:05Z")
            }
        }
    }
}

fn unless(holds: bool, message: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![message.to_string()] }
}

fn too_long(text: &str, bytes_max: usize) -> Option<String> {
    (text.len() > bytes_max).then(|| format!("longer than {bytes_max} bytes"))
}

/// A prefix may end in a dash. The original masks it by dropping the last two bytes and adding a letter.
fn finished(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if bytes.len() > 1 && bytes.ends_with(b"-") {
        bytes.truncate(bytes.len() - 2);
        bytes.push(b'a');
    }
    // Cutting a character in half leaves text that breaks the rules either way.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn dns1123_label(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long(text, LABEL_BYTES_MAX).into_iter().collect();
    if !is_dns1123_label(text) {
        broken.push(if is_dns1123_subdomain(text) {
            "a label has no dots".to_string()
        } else {
            "lower case letters, digits and '-', starting and ending with a letter or digit".to_string()
        });
    }
    broken
}

fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long(text, SUBDOMAIN_BYTES_MAX).into_iter().collect();
    if !is_dns1123_subdomain(text) {
        broken.push(
            "labels of lower case letters, digits and '-', joined by '.', each starting and ending with a letter or digit"
                .to_string(),
        );
    }
    broken
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long(text, LABEL_BYTES_MAX).into_iter().collect();
    if !(is_dns1123_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        broken.push(
            "lower case letters, digits and '-', starting with a letter and ending with a letter or digit"
                .to_string(),
        );
    }
    broken
}

fn qualified_name(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec!["at most one '/', after a DNS subdomain".to_string()];
        }
        Some(("", name)) => {
            broken.push("prefix part is empty".to_string());
            name
        }
        Some((prefix, name)) => {
            let prefix = dns1123_subdomain(prefix).into_iter();
            broken.extend(prefix.map(|rule| format!("prefix part: {rule}")));
            name
        }
    };
    if name.is_empty() {
        broken.push("name part is empty".to_string());
    } else if let Some(rule) = too_long(name, LABEL_BYTES_MAX) {
        broken.push(format!("name part: {rule}"));
    }
    if !is_name(name) {
        broken.push(
            "name part: letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
                .to_string(),
        );
    }
    broken
}

fn label_value(text: &str) -> Vec<String> {
    let mut broken: Vec<String> = too_long(text, LABEL_BYTES_MAX).into_iter().collect();
    if !(text.is_empty() || is_name(text)) {
        broken.push(
            "empty, or letters, digits, '-', '_' and '.', starting and ending with a letter or digit"
                .to_string(),
        );
    }
    broken
}

fn is_dns1123_label(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_bounded(text, edge, |byte| edge(byte) || *byte == b'-')
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

fn is_name(text: &str) -> bool {
    is_bounded(text, u8::is_ascii_alphanumeric, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_bounded(text: &str, edge: impl Fn(&u8) -> bool, inner: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(&edge) && bytes.last().is_some_and(&edge) && bytes.iter().all(inner)
}

/// Dashes are optional, each on its own.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else {
            return false;
        };
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Standard alphabet with padding; the empty text is not base64 here.
fn is_base64(text: &str) -> bool {
    let padding = text.len() - text.trim_end_matches('=').len();
    let digits = &text.as_bytes()[..text.len() - padding];
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && digits.iter().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(b))
}

fn is_date(text: &str) -> bool {
    let [year @ .., b'-', month_high, month_low, b'-', day_high, day_low] = text.as_bytes() else {
        return false;
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |value, digit| char::from(*digit).to_digit(10).map(|d| value * 10 + d))
    };
    if year.len() != 4 {
        return false;
    }
    let (Some(year), Some(month), Some(day)) =
        (number(year), number(&[*month_high, *month_low]), number(&[*day_high, *day_low]))
    else {
        return false;
    };
    (1..=days_in(year, month)).contains(&day)
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

/// Date, `t`, time, zone. Whatever follows a second `t` is not looked at, nor is the range of the zone.
fn is_datetime(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let [h1, h2, b':', m1, m2, b':', s1, s2, ..] = time.as_bytes() else {
        return false;
    };
    let is_clock = [h1, h2, m1, m2, s1, s2].into_iter().all(u8::is_ascii_digit)
        && [*h1, *h2] <= *b"23"
        && [*m1, *m2] <= *b"59"
        && [*s1, *s2] <= *b"59";
    is_clock && is_zone_after_fraction(&time[8..])
}

/// Any one character may stand for the dot before the fraction; so it is in the original.
fn is_zone_after_fraction(rest: &str) -> bool {
    let mut chars = rest.chars();
    let has_mark = chars.next().is_some_and(|c| c != '\n');
    let zone = chars.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    let has_fraction = has_mark && zone.len() < chars.as_str().len();
    is_zone(rest) || (has_fraction && is_zone(zone))
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: NamedFormat, rows: &[(&str, usize)]) {
        for (text, broken) in rows {
            let messages = format.validate(text);
            assert_eq!(messages.len(), *broken, "{text:?}: {messages:?}");
        }
    }

    #[test]
    fn names_find_their_format() {
        for format in NamedFormat::ALL {
            assert_eq!(NamedFormat::by_name(format.name()), Some(format));
        }
        assert_eq!(NamedFormat::by_name("dns1123label"), None);
    }

    #[test]
    fn dns_labels() {
        let long = "a".repeat(64);
        let long_bad = "A".repeat(64);
        check(
            NamedFormat::Dns1123Label,
            &[
                ("my-label", 0),
                ("1a", 0),
                ("a.b", 1),
                ("", 1),
                ("-a", 1),
                ("A", 1),
                (&long, 1),
                (&long_bad, 2),
            ],
        );
        check(NamedFormat::Dns1035Label, &[("my-label", 0), ("1a", 1), ("a-", 1), ("", 1), (&long_bad, 2)]);
        check(
            NamedFormat::Dns1123LabelPrefix,
            &[("my-", 0), ("a-", 0), ("-", 1), ("a", 0), ("--", 0), ("é-", 1), ("a_-", 0)],
        );
        check(NamedFormat::Dns1035LabelPrefix, &[("a-", 0), ("1b-", 1), ("1-", 0)]);
    }

    #[test]
    fn dns_subdomains() {
        let long = "a".repeat(254);
        check(
            NamedFormat::Dns1123Subdomain,
            &[("apiextensions.k8s.io", 0), ("a..b", 1), ("a.", 1), ("a.-b", 1), (&long, 1)],
        );
        check(NamedFormat::Dns1123SubdomainPrefix, &[("a.b-", 0), ("mysubdomain.prefix.-", 0)]);
    }

    #[test]
    fn qualified_names_and_label_values() {
        let long = "a".repeat(64);
        check(
            NamedFormat::QualifiedName,
            &[
                ("example.com/Name_1.x", 0),
                ("Name", 0),
                ("", 2),
                ("/x", 1),
                ("a/", 2),
                ("A/x", 1),
                ("A/-", 2),
                ("a/b/c", 1),
                (&long, 1),
            ],
        );
        check(NamedFormat::LabelValue, &[("", 0), ("My_value.1", 0), ("-x", 1), ("x_", 1), (&long, 1)]);
    }

    #[test]
    fn uris() {
        check(NamedFormat::Uri, &[("http://example.com", 0), ("/x", 0), ("x", 1), ("", 1)]);
    }

    #[test]
    fn uuids_and_base64() {
        check(
            NamedFormat::Uuid,
            &[
                ("123e4567-e89b-12d3-a456-426614174000", 0),
                ("123E4567E89B12D3A456426614174000", 0),
                ("123e4567-e89b12d3-a456426614174000", 0),
                ("123e4567--e89b-12d3-a456-42661417400", 1),
                ("123e4567-e89b-12d3-a456-4266141740000", 1),
                ("é23e4567-e89b-12d3-a456-42661417400", 1),
                ("", 1),
            ],
        );
        check(
            NamedFormat::Byte,
            &[
                ("aGVsbG8=", 0),
                ("aGVs", 0),
                ("aA==", 0),
                ("", 1),
                ("a===", 1),
                ("aGV", 1),
                ("aG_s", 1),
                ("a=GV", 1),
            ],
        );
    }

    #[test]
    fn dates_and_times() {
        check(
            NamedFormat::Date,
            &[
                ("2021-01-01", 0),
                ("2024-02-29", 0),
                ("0000-02-29", 0),
                ("2023-02-29", 1),
                ("1900-02-29", 1),
                ("2021-13-01", 1),
                ("2021-00-01", 1),
                ("2021-01-00", 1),
                ("2021-1-01", 1),
                ("21-01-01", 1),
                ("12021-01-01", 1),
                ("2021-01-01 ", 1),
            ],
        );
        check(
            NamedFormat::Datetime,
            &[
                ("2021-01-01T00:00:00Z", 0),
                ("2021-01-01t23:59:59.123+99:99", 0),
                ("2021-01-01T00:00:00,5z", 0),
                ("2021-01-01T00:00:00-05+01:00", 0),
                ("2021-01-01T00:00:00Ztrailing", 0),
                ("2021-01-01T00:00:00.Z", 1),
                ("2021-01-01T24:00:00Z", 1),
                ("2021-01-01T00:60:00Z", 1),
                ("2021-01-01T00:00:60Z", 1),
                ("2021-01-01T00:00:00", 1),
                ("2021-01-01 00:00:00Z", 1),
                ("2021-02-30T00:00:00Z", 1),
                ("t", 1),
            ],
        );
    }
}
