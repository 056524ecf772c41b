//! `$(NAME)` in values, commands and paths.

/// The result would be longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Replaces each `$(NAME)` by its `value`; `$$` is one `$`. Other text stays as it is.
///
/// The result has at most `bytes_max` bytes: a short text can name a long value many times.
pub(crate) fn expand(
    text: &str,
    bytes_max: usize,
    mut value: impl FnMut(&str) -> Option<String>,
) -> Result<String, TooLong> {
    let mut result = String::new();
    let mut push = |part: &str| {
        if result.len().saturating_add(part.len()) > bytes_max {
            return Err(TooLong);
        }
        result.push_str(part);
        Ok(())
    };
    // Beyond the last `)` nothing is a reference, and need not be looked through again and again.
    let end = text.rfind(')').unwrap_or_default();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        push(&rest[..at])?;
        let after = &rest[at + 1..];
        rest = if let Some(after) = after.strip_prefix('$') {
            push("$")?;
            after
        } else if let Some((name, after)) = reference(after, text.len() - after.len() < end) {
            match value(name) {
                Some(value) => push(&value)?,
                None => push(&rest[at..rest.len() - after.len()])?,
            }
            after
        } else {
            push("$")?;
            after
        };
    }
    push(rest)?;
    Ok(result)
}

/// The name in `(NAME)`, and what follows it.
fn reference(text: &str, has_end: bool) -> Option<(&str, &str)> {
    text.strip_prefix('(').filter(|_| has_end)?.split_once(')')
}
