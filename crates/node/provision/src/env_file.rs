//! Files of variables, for `fileKeyRef`: `NAME='value'`, one after the other.

/// The value of a key; nothing when the file does not have it.
///
/// A value stands in single quotes and may go over several lines; nothing in it is replaced. A comment may follow it. A space after
/// the `=` makes the value empty, as it does in a shell.
pub(crate) fn find(text: &str, key: &str) -> Result<Option<String>, String> {
    let wrong = |number: usize, what: &str| {
        Err(format!("invalid environment variable format at line {}: {what}", number + 1))
    };
    let is_blank = |letter: char| letter == ' ' || letter == '\t';
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(is_blank);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { return wrong(number, "missing '='") };
        if name.trim_end_matches(is_blank).is_empty() {
            return wrong(number, "empty variable name");
        }
        if name.ends_with(is_blank) {
            return wrong(number, "whitespace before '=' is not allowed");
        }
        if value.starts_with(is_blank) {
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let Some(mut rest) = value.strip_prefix('\'') else {
            return wrong(number, "value must be enclosed in single quotes");
        };
        let mut value = String::new();
        let after = loop {
            if let Some((last, after)) = rest.split_once('\'') {
                value.push_str(last);
                break after;
            }
            value.push_str(rest);
            value.push('\n');
            match lines.next() {
                Some((_, line)) => rest = line,
                None => {
                    return Err(format!(
                        "invalid environment variable format starting at line {}: unclosed single quote",
                        number + 1
                    ));
                }
            }
        };
        let after = after.trim_start_matches(is_blank);
        if !after.is_empty() && !after.starts_with('#') {
            return wrong(number, "unexpected content after closing quote");
        }
        if name == key {
            return Ok(Some(value).filter(|value| !value.is_empty()));
        }
    }
    Ok(None)
}
