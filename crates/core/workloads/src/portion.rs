//! Numbers that may be percentages.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A number, or a percentage of `whole`, rounded up or down; 0 for any other text.
pub(crate) fn portion(value: &IntOrString, whole: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0);
            let exact = percent.saturating_mul(i64::from(whole));
            let rounded = if up { exact.saturating_add(99).div_euclid(100) } else { exact.div_euclid(100) };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}

/// Whether it is a percentage.
pub(crate) fn is_percentage(value: &IntOrString) -> bool {
    matches!(value, IntOrString::String(_))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn percentages_are_rounded_as_told() {
        for (value, whole, up, down) in [
            (IntOrString::Int(3), 10, 3, 3),
            (IntOrString::String("25%".to_string()), 10, 3, 2),
            (IntOrString::String("0%".to_string()), 10, 0, 0),
            (IntOrString::String("100%".to_string()), 7, 7, 7),
            (IntOrString::String("many".to_string()), 7, 0, 0),
        ] {
            assert_eq!(
                (portion(&value, whole, true), portion(&value, whole, false)),
                (up, down),
                "{value:?}"
            );
        }
    }
}
