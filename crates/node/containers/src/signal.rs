//! Signals by their names.

/// The signal that asks a program to end, when it names none.
pub(crate) const TERM: i32 = 15;
/// The first of those that have no name of their own, as C libraries count.
const REAL_TIME_MIN: i32 = 34;
/// The last.
const REAL_TIME_MAX: i32 = 64;

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The number of `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3` or `SIGRTMAX-1`.
pub(crate) fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return (1..=REAL_TIME_MAX).contains(&number).then_some(number);
    }
    let text = text.to_ascii_uppercase();
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    if let Some(at) = NAMES.iter().position(|known| *known == name) {
        return i32::try_from(at + 1).ok();
    }
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        REAL_TIME_MIN + offset(rest, '+')?
    } else {
        REAL_TIME_MAX - offset(name.strip_prefix("RTMAX")?, '-')?
    };
    (REAL_TIME_MIN..=REAL_TIME_MAX).contains(&number).then_some(number)
}

fn offset(text: &str, sign: char) -> Option<i32> {
    if text.is_empty() {
        Some(0)
    } else {
        text.strip_prefix(sign)?.parse().ok().filter(|offset| (0..=30).contains(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        let known = [
            ("SIGTERM", 15),
            ("term", 15),
            ("9", 9),
            ("SIGRTMIN+3", 37),
            ("RTMAX", 64),
            ("SIGWINCH", 28),
            ("SYS", 31),
        ];
        for (text, wanted) in known {
            assert_eq!(number(text), Some(wanted), "{text}");
        }
        for text in ["", "0", "65", "-1", "SIG", "SIGRTMIN+31", "RTMAX+1", "NOPE"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
