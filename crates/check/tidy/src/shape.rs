//! The size of functions and types, from the text of a file.

use std::collections::BTreeMap;

/// A function: its name and the lines from its head to its last brace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// How many lines it has.
    pub lines: usize,
}

/// The functions of a source without comments and literals that is formatted by rustfmt: each ends with a brace at the indent of its head.
#[must_use]
pub fn functions(code: &str) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &str| {
            let own = line.len() - line.trim_start().len();
            own == indent && (matches!(line.trim(), "}" | "};") || line.trim_end().ends_with(';'))
        };
        let is_one_line = line.trim_end().ends_with('}') || line.trim_end().ends_with(';');
        let more = if is_one_line {
            Some(0)
        } else {
            lines[at + 1..].iter().position(|line| is_end(line)).map(|end| end + 1)
        };
        found.push(Function { name: name.to_owned(), lines: more.unwrap_or(0) + 1 });
    }
    found
}

/// How many functions the `impl` blocks of each type have in such a source; implementations of traits are not counted.
#[must_use]
pub fn methods(code: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut of: Option<(String, usize)> = None;
    for line in code.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some((name, outer)) = &of {
            if indent == *outer && line.trim() == "}" {
                of = None;
            } else if function_name(line).is_some() && indent == outer + 4 {
                *counts.entry(name.clone()).or_default() += 1;
            }
        } else if let Some(name) = own_implementation(line) {
            of = Some((name.to_owned(), indent));
        }
    }
    counts
}

/// The name in the head of a function.
fn function_name(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let at = if words.starts_with("fn ") { 3 } else { words.find(" fn ")? + 4 };
    let heads = ["pub", "const", "async", "unsafe", "extern", "default", "fn"];
    let is_head = words[..at]
        .split_whitespace()
        .all(|word| heads.iter().any(|head| word.starts_with(head)) || word.ends_with(')'));
    let name = words[at..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_head && !name.is_empty()).then_some(name)
}

/// The type of an `impl` block that implements no trait.
fn own_implementation(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => {
            let mut depth = 1_usize;
            let end = generic.char_indices().find(|(at, c)| {
                match c {
                    '<' => depth += 1,
                    '>' if !generic[..*at].ends_with('-') => depth -= 1,
                    _ => {}
                }
                depth == 0
            })?;
            &generic[end.0 + 1..]
        }
        None => rest.strip_prefix(' ').map(|_| rest)?,
    };
    let rest = rest.trim_start();
    if rest.contains(" for ") || !line.trim_end().ends_with('{') {
        return None;
    }
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
impl<'a, T: Fn() -> bool> Machine<'a, T> {
    pub(crate) const fn new() -> Self { Self }

    async fn run(
        &self,
    ) {
        if a {
            b();
        }
    }
}
impl Drop for Machine {
    fn drop(&mut self) {
    }
}
fn free() {}
";

    #[test]
    fn functions_end_at_the_indent_of_their_head() {
        let found: Vec<(String, usize)> =
            functions(CODE).into_iter().map(|one| (one.name, one.lines)).collect();
        let wanted = [("new", 1), ("run", 7), ("drop", 2), ("free", 1)];
        assert_eq!(found, wanted.map(|(name, lines)| (name.to_owned(), lines)));
    }

    #[test]
    fn methods_are_those_of_the_type_itself() {
        assert_eq!(methods(CODE), BTreeMap::from([("Machine".to_owned(), 2)]));
    }
}
