//! The string literals of a Rust file: the text that a program may show to people.

/// A string literal, and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Counted from 1.
    pub line: usize,
    /// As it stands between the quotes; lines that a backslash joins are one.
    pub text: String,
}

/// A part of a Rust file.
enum Piece<'a> {
    Code(&'a str),
    Comment,
    Literal(Literal),
}

/// The string literals of a file up to its module of tests. Comments and characters have none.
#[must_use]
pub fn literals(source: &str) -> Vec<Literal> {
    let pieces = pieces(product_code(source)).into_iter();
    let literals = pieces.filter_map(|piece| match piece {
        Piece::Literal(literal) => Some(literal),
        Piece::Code(_) | Piece::Comment => None,
    });
    literals.collect()
}

/// The code of a file: without comments, and with empty literals.
#[must_use]
pub fn without_text(source: &str) -> String {
    let code = pieces(source).into_iter().map(|piece| match piece {
        Piece::Code(code) => code,
        Piece::Comment => " ",
        Piece::Literal(_) => "\"\"",
    });
    code.collect()
}

fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut rest = Rest { text: source, line: 1 };
    let mut found = Vec::new();
    while let Some(first) = rest.text.chars().next() {
        if rest.text.starts_with("//") {
            rest.skip(rest.text.find('\n').unwrap_or(rest.text.len()));
            found.push(Piece::Comment);
        } else if rest.text.starts_with("/*") {
            rest.skip(rest.text.find("*/").map_or(rest.text.len(), |at| at + 2));
            found.push(Piece::Comment);
        } else if first == '"' {
            let line = rest.line;
            rest.skip(1);
            let end = end_of_plain(rest.text);
            found.push(Piece::Literal(Literal { line, text: joined(&rest.text[..end]) }));
            rest.skip((end + 1).min(rest.text.len()));
        } else if let Some((begin, hashes)) = raw_begin(rest.text) {
            let line = rest.line;
            rest.skip(begin);
            let close = format!("\"{}", "#".repeat(hashes));
            let end = rest.text.find(&close).unwrap_or(rest.text.len());
            found.push(Piece::Literal(Literal { line, text: rest.text[..end].to_owned() }));
            rest.skip((end + close.len()).min(rest.text.len()));
        } else {
            let len = if first == '\'' {
                character_len(rest.text)
            } else if first.is_alphanumeric() || first == '_' {
                // A whole word, so that its last letter does not look like the `r` of a raw string.
                rest.text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.text.len())
            } else {
                first.len_utf8()
            };
            found.push(Piece::Code(&rest.text[..len]));
            rest.skip(len);
        }
    }
    found
}

/// A file without its module of tests.
#[must_use]
pub fn product_code(source: &str) -> &str {
    for (at, _) in source.match_indices("\n#[cfg(test)]\n") {
        // Attributes stand between, some on several lines.
        let item = source[at..].lines().skip(2).find(|line| line.starts_with(char::is_alphabetic));
        if item.is_some_and(|item| item.contains("mod ") && item.ends_with('{')) {
            return &source[..at];
        }
    }
    source
}

struct Rest<'a> {
    text: &'a str,
    line: usize,
}

impl Rest<'_> {
    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.text.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.text = rest;
    }
}

/// The length and the hashes of `r"`, `r#"`, `br"` and so on; none if no raw string begins here.
fn raw_begin(text: &str) -> Option<(usize, usize)> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let begin = text.len() - after.len() + hashes + 1;
    after[hashes..].starts_with('"').then_some((begin, hashes))
}

/// Where a plain string ends that has begun before `text`.
fn end_of_plain(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The length of a character literal, or of the quote of a lifetime.
fn character_len(text: &str) -> usize {
    let body = &text[1..];
    let escaped = body.starts_with('\\');
    let from = if escaped { 2 } else { body.chars().next().map_or(0, char::len_utf8) };
    let close = body.get(from..).and_then(|rest| rest.find('\''));
    match close {
        Some(0) => from + 2,
        Some(more) if escaped && more < 10 => from + more + 2,
        Some(_) | None => 1,
    }
}

/// A string whose lines end in a backslash, in one line.
fn joined(text: &str) -> String {
    let mut whole = String::new();
    for (at, part) in text.split("\\\n").enumerate() {
        whole.push_str(if at == 0 { part } else { part.trim_start() });
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        literals(source).into_iter().map(|literal| literal.text).collect()
    }

    #[test]
    fn strings_are_found_and_nothing_else_is() {
        assert_eq!(texts(r#"f("a", 'b', "c\"d"); // "e""#), ["a", "c\\\"d"]);
        assert_eq!(
            texts("/* \"a\" */ let x: &'static str = \"b\"; let q = '\"'; let r = '\\''; g(\"c\")"),
            ["b", "c"]
        );
        assert_eq!(texts("let s = r#\"say \"x\"\"#; let t = br#\"y\"#; for\"z\""), ["say \"x\"", "y", "z"]);
        assert_eq!(texts("\"one \\\n    line\""), ["one line"]);
        assert_eq!(texts("'\\u{1F600}'; \"after\""), ["after"]);
        assert_eq!(literals("\n\n\"a\"").first().map(|literal| literal.line), Some(3));
    }

    #[test]
    fn tests_are_left_out() {
        let source = "f(\"a\");\n#[cfg(test)]\nmod helpers;\nf(\"b\");\n#[cfg(test)]\n#[allow(\n    x,\n)]\nmod tests {\n f(\"c\");\n}";
        assert_eq!(texts(source), ["a", "b"]);
    }
}
