//! The work to compile a regular expression, from its text alone: an upper bound in units, one of which is what a unit of cost takes.
//!
//! Kubernetes charges a pattern for its length. A short one with repetitions, or with classes of Unicode, compiles to megabytes.

/// Each pattern.
const PATTERN_UNITS: u64 = 2_000;
/// A character, or a class of ASCII.
const CHAR_UNITS: u64 = 40;
/// A character whose case is ignored.
const FOLDED_UNITS: u64 = 200;
/// Any character, or a class beyond ASCII: a machine over bytes.
const WIDE_UNITS: u64 = 1_000;
/// A property of Unicode: hundreds of ranges.
const PROPERTY_UNITS: u64 = 25_000;

/// The units for a pattern that was translated, in which one item is repeated this often at most.
pub(crate) fn units(translated: &str, copies: u32) -> u64 {
    let (mut units, mut in_class, mut chars) = (0_u64, 0_u32, translated.chars().peekable());
    let letter = if ignores_case(translated) { FOLDED_UNITS } else { CHAR_UNITS };
    while let Some(c) = chars.next() {
        let item = match c {
            '\\' => match chars.next() {
                Some('p' | 'P') => PROPERTY_UNITS,
                Some('x') => {
                    let number = chars.by_ref().take_while(|c| *c != '}').filter(char::is_ascii_hexdigit);
                    if number.count() > 2 { WIDE_UNITS } else { letter }
                }
                _ => letter,
            },
            '[' => {
                in_class += 1;
                if chars.peek() == Some(&'^') { WIDE_UNITS } else { letter }
            }
            ']' => {
                in_class = in_class.saturating_sub(1);
                0
            }
            '.' if in_class == 0 => WIDE_UNITS,
            c if c.is_ascii() => letter,
            _ => WIDE_UNITS,
        };
        units = units.saturating_add(item);
    }
    units.saturating_mul(u64::from(copies.max(1))).saturating_add(PATTERN_UNITS)
}

/// Whether some group ignores case.
fn ignores_case(translated: &str) -> bool {
    translated.split("(?").skip(1).any(|rest| {
        let flags = rest.split([':', ')']).next().unwrap_or_default();
        flags.split('-').next().unwrap_or_default().contains('i')
    })
}
