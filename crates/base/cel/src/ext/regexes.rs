//! Regular expressions in Go's dialect of RE2, run by the `regex` crate.
//!
//! The dialects agree on meaning but not on spelling: `\d`, `\w`, `\s` and `\b` are ASCII in RE2, classes have no set
//! operations, `\<` is a plain character. [`Translator`] rewrites a pattern so that it means the same here.
//! Groups become non-capturing: captures are never used.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::iter::Peekable;
use core::str::Chars;

use regex::{Regex, RegexBuilder};

use super::{ExtError, pattern_work};

/// Memory a compiled pattern may take. Kubernetes allows more; a selector has no use for it.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Largest count in `{n,m}`, also for the product of nested counts.
const REPEAT_MAX: u32 = 1_000;

/// Compiles a pattern; the error is what `matches`, `find` and `findAll` answer.
pub(crate) fn compile(pattern: &str) -> Result<Regex, ExtError> {
    let (translated, _) = Translator::new(pattern).run().map_err(|reason| illegal(&reason))?;
    RegexBuilder::new(&translated).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| {
        if let regex::Error::CompiledTooBig(limit) = error {
            illegal(&format!("needs more than {limit} bytes"))
        } else {
            illegal(&summary(&error))
        }
    })
}

/// The units of work that it takes at most to compile a pattern. One that is illegal is not compiled.
pub(crate) fn compile_units(pattern: &str) -> u64 {
    Translator::new(pattern).run().map_or(0, |(translated, copies)| pattern_work::units(&translated, copies))
}

/// `string.find(pattern)`: the leftmost match, or the empty string.
pub(crate) fn find<'t>(regex: &Regex, text: &'t str) -> &'t str {
    regex.find(text).map_or("", |found| found.as_str())
}

/// `string.findAll(pattern[, limit])`: all matches when the limit is negative.
pub(crate) fn find_all<'t>(regex: &Regex, text: &'t str, limit: i64) -> Vec<&'t str> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    regex.find_iter(text).take(limit).map(|found| found.as_str()).collect()
}

fn illegal(reason: &str) -> ExtError {
    ExtError(format!("Illegal regex: {reason}"))
}

/// The last line of the parser's picture says what is wrong; the picture itself shows the rewritten pattern.
fn summary(error: &regex::Error) -> String {
    let text = format!("{error}");
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The last token, for the operators that repeat it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastToken {
    Nothing,
    Item,
    Repetition,
}

/// One open group: its largest product of counts so far, and that of the item a repetition would apply to.
#[derive(Clone, Copy)]
struct Level {
    largest: u32,
    item: u32,
}

struct Translator<'p> {
    chars: Peekable<Chars<'p>>,
    out: String,
    last: LastToken,
    levels: Vec<Level>,
    names: Vec<String>,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str) -> Self {
        Translator {
            chars: pattern.chars().peekable(),
            out: String::with_capacity(pattern.len() + 16),
            last: LastToken::Nothing,
            levels: alloc::vec![Level { largest: 1, item: 1 }],
            names: Vec::new(),
        }
    }

    /// The pattern in the other dialect, and how often one item of it is repeated at most.
    fn run(mut self) -> Result<(String, u32), String> {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => self.escape()?,
                '[' => {
                    self.class()?;
                    self.item();
                }
                '(' => self.open_group()?,
                ')' => self.close_group()?,
                '|' => {
                    self.out.push('|');
                    self.last = LastToken::Nothing;
                }
                '*' | '+' | '?' => {
                    self.out.push(c);
                    self.repetition(1)?;
                }
                '{' => self.brace()?,
                '.' | '^' | '$' => {
                    self.out.push(c);
                    self.item();
                }
                other => self.literal(other),
            }
        }
        if self.levels.len() != 1 {
            return Err("missing closing )".to_owned());
        }
        Ok((self.out, self.levels.first().map_or(1, |level| level.largest)))
    }

    fn item(&mut self) {
        self.last = LastToken::Item;
        if let Some(level) = self.levels.last_mut() {
            level.item = 1;
        }
    }

    fn literal(&mut self, c: char) {
        self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        self.item();
    }

    /// A repetition operator was written; `count` is its largest number.
    fn repetition(&mut self, count: u32) -> Result<(), String> {
        match self.last {
            LastToken::Nothing => return Err("nothing to repeat".to_owned()),
            LastToken::Repetition => return Err("repetition of a repetition".to_owned()),
            LastToken::Item => {}
        }
        self.last = LastToken::Repetition;
        if let Some('?') = self.chars.peek() {
            self.chars.next();
            self.out.push('?');
        }
        if let Some(level) = self.levels.last_mut() {
            level.item = level.item.saturating_mul(count.max(1));
            level.largest = level.largest.max(level.item);
            if level.item > REPEAT_MAX {
                return Err(format!("repeat count above {REPEAT_MAX}"));
            }
        }
        Ok(())
    }

    /// `{n}`, `{n,}` and `{n,m}` repeat; any other brace is itself.
    fn brace(&mut self) -> Result<(), String> {
        let mut ahead = self.chars.clone();
        let Some((low, high)) = counts(&mut ahead) else {
            self.literal('{');
            return Ok(());
        };
        self.chars = ahead;
        let most = high.flatten().unwrap_or(low);
        if low > REPEAT_MAX || most > REPEAT_MAX || most < low {
            return Err("bad repeat count".to_owned());
        }
        // Writing to a `String` cannot fail.
        let _ = match high {
            None => write!(self.out, "{{{low}}}"),
            Some(None) => write!(self.out, "{{{low},}}"),
            Some(Some(high)) => write!(self.out, "{{{low},{high}}}"),
        };
        self.repetition(most)
    }

    fn open_group(&mut self) -> Result<(), String> {
        if self.chars.peek() != Some(&'?') {
            self.out.push_str("(?:");
            self.enter();
            return Ok(());
        }
        self.chars.next();
        match self.chars.peek() {
            Some('P' | '<') => self.named_group(),
            _ => self.flags(),
        }
    }

    fn enter(&mut self) {
        self.levels.push(Level { largest: 1, item: 1 });
        self.last = LastToken::Nothing;
    }

    fn close_group(&mut self) -> Result<(), String> {
        let closed = self.levels.pop();
        let (Some(closed), Some(outer)) = (closed, self.levels.last_mut()) else {
            return Err("unexpected )".to_owned());
        };
        outer.item = closed.largest;
        outer.largest = outer.largest.max(closed.largest);
        self.last = LastToken::Item;
        self.out.push(')');
        Ok(())
    }

    fn named_group(&mut self) -> Result<(), String> {
        if self.chars.peek() == Some(&'P') {
            self.chars.next();
        }
        let name: Option<String> = (self.chars.next() == Some('<')).then(|| {
            let mut name = String::new();
            for c in self.chars.by_ref() {
                if c == '>' {
                    return name;
                }
                name.push(c);
            }
            String::new()
        });
        match name {
            Some(name)
                if !name.is_empty()
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && !self.names.contains(&name) =>
            {
                self.names.push(name);
                self.out.push_str("(?:");
                self.enter();
                Ok(())
            }
            Some(_) | None => Err("bad group name".to_owned()),
        }
    }

    fn flags(&mut self) -> Result<(), String> {
        let mut flags = String::new();
        loop {
            match self.chars.next() {
                Some(c @ ('i' | 'm' | 's' | 'U')) => flags.push(c),
                Some('-') if !flags.contains('-') => flags.push('-'),
                Some(')') if !flags.ends_with('-') => {
                    if !flags.is_empty() {
                        let _ = write!(self.out, "(?{})", unique(&flags));
                    }
                    return Ok(());
                }
                Some(':') if !flags.ends_with('-') => {
                    let _ = write!(self.out, "(?{}:", unique(&flags));
                    self.enter();
                    return Ok(());
                }
                Some(_) | None => return Err("bad group syntax after (?".to_owned()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(c) = self.chars.next() else {
            return Err("trailing backslash".to_owned());
        };
        match c {
            'A' | 'z' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'b' => self.out.push_str(r"(?-u:\b)"),
            'B' => self.out.push_str(r"(?-u:\B)"),
            'Q' => {
                self.quoted();
                return Ok(());
            }
            'p' | 'P' => self.property(c)?,
            _ => match ascii_class(c) {
                Some((negated, ranges)) => {
                    let caret = if negated { "^" } else { "" };
                    let _ = write!(self.out, "[{caret}{ranges}]");
                }
                None => {
                    let decoded = self.escaped_char(c)?;
                    self.literal(decoded);
                }
            },
        }
        self.item();
        Ok(())
    }

    /// `\Q` quotes up to `\E` or the end.
    fn quoted(&mut self) {
        while let Some(c) = self.chars.next() {
            if c == '\\' && self.chars.peek() == Some(&'E') {
                self.chars.next();
                return;
            }
            self.literal(c);
        }
    }

    /// `\pN`, `\p{Name}` and `\p{^Name}`.
    fn property(&mut self, kind: char) -> Result<(), String> {
        let mut name = String::new();
        match self.chars.next() {
            Some('{') => loop {
                match self.chars.next() {
                    Some('}') => break,
                    Some(c) => name.push(c),
                    None => return Err("missing closing }".to_owned()),
                }
            },
            Some(c) => name.push(c),
            None => return Err("missing property name".to_owned()),
        }
        let (negated, name) = match name.strip_prefix('^') {
            Some(name) => (kind == 'p', name),
            None => (kind == 'P', name.as_str()),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("bad property name".to_owned());
        }
        let letter = if negated { 'P' } else { 'p' };
        let _ = write!(self.out, "\\{letter}{{{name}}}");
        Ok(())
    }

    /// An escape that stands for one character; `first` follows the backslash.
    fn escaped_char(&mut self, first: char) -> Result<char, String> {
        let decoded = match first {
            'a' => Some('\u{07}'),
            'f' => Some('\u{0c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{0b}'),
            'x' => self.hexadecimal(),
            // A lone digit other than zero would be a backreference.
            '1'..='7' if !self.chars.peek().is_some_and(|c| c.is_digit(8)) => None,
            '0'..='7' => self.octal(first),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        decoded.ok_or_else(|| format!("bad escape \\{first}"))
    }

    fn octal(&mut self, first: char) -> Option<char> {
        let mut value = first.to_digit(8)?;
        for _ in 0..2 {
            let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(8)) else {
                break;
            };
            self.chars.next();
            value = value * 8 + digit;
        }
        char::from_u32(value)
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let first = self.chars.next()?;
        if first != '{' {
            let high = first.to_digit(16)?;
            let low = self.chars.next()?.to_digit(16)?;
            return char::from_u32(high * 16 + low);
        }
        let mut value = self.chars.next()?.to_digit(16)?;
        loop {
            match self.chars.next()? {
                '}' => return char::from_u32(value),
                c => value = value.checked_mul(16)?.checked_add(c.to_digit(16)?)?,
            }
        }
    }

    /// A bracketed class; every character is written by its number, so no second meaning is left.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.chars.peek() == Some(&'^') {
            self.chars.next();
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(c) = self.chars.next() else {
                return Err("missing closing ]".to_owned());
            };
            match c {
                ']' if !is_first => break,
                '[' if self.posix()? => {}
                '\\' if self.class_escape()? => {}
                c => self.class_range(c)?,
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// `[:name:]`; a bracket without the closing `:]` is itself.
    fn posix(&mut self) -> Result<bool, String> {
        let mut ahead = self.chars.clone();
        if ahead.next() != Some(':') {
            return Ok(false);
        }
        let mut name = String::new();
        loop {
            match ahead.next() {
                None => return Ok(false),
                Some(':') if ahead.peek() == Some(&']') => break,
                Some(c) => name.push(c),
            }
        }
        ahead.next();
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(&name)) {
            return Err("bad character class name".to_owned());
        }
        let _ = write!(self.out, "[:{name}:]");
        self.chars = ahead;
        Ok(true)
    }

    /// Escapes that stand for a set; any other is left to [`Self::class_char`].
    fn class_escape(&mut self) -> Result<bool, String> {
        let Some(c) = self.chars.peek().copied() else {
            return Err("trailing backslash".to_owned());
        };
        if let 'p' | 'P' = c {
            self.chars.next();
            self.property(c)?;
            return Ok(true);
        }
        let Some((negated, ranges)) = ascii_class(c) else {
            return Ok(false);
        };
        self.chars.next();
        let _ = if negated { write!(self.out, "[^{ranges}]") } else { self.out.write_str(ranges) };
        Ok(true)
    }

    fn class_range(&mut self, first: char) -> Result<(), String> {
        let low = self.class_char(first)?;
        let mut ahead = self.chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']');
        if !is_range {
            let _ = write!(self.out, "\\x{{{:x}}}", u32::from(low));
            return Ok(());
        }
        self.chars = ahead;
        let Some(last) = self.chars.next() else {
            return Err("missing closing ]".to_owned());
        };
        let high = self.class_char(last)?;
        if high < low {
            return Err("bad character class range".to_owned());
        }
        let _ = write!(self.out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
        Ok(())
    }

    fn class_char(&mut self, first: char) -> Result<char, String> {
        if first != '\\' {
            return Ok(first);
        }
        match self.chars.next() {
            Some(c) => self.escaped_char(c),
            None => Err("trailing backslash".to_owned()),
        }
    }
}

/// The ASCII sets behind `\d`, `\s` and `\w`, and whether the letter means the rest.
fn ascii_class(letter: char) -> Option<(bool, &'static str)> {
    let ranges = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\f\r\x20",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((letter.is_ascii_uppercase(), ranges))
}

/// Repeated flags say nothing new, and the other dialect refuses them.
fn unique(flags: &str) -> String {
    let mut seen = String::new();
    let (on, off) = flags.split_once('-').unwrap_or((flags, ""));
    for flag in on.chars().filter(|flag| !off.contains(*flag)) {
        if !seen.contains(flag) {
            seen.push(flag);
        }
    }
    if !off.is_empty() {
        seen.push('-');
        for flag in off.chars() {
            if !seen.contains(flag) {
                seen.push(flag);
            }
        }
    }
    seen
}

/// Reads `n}`, `n,}` or `n,m}`: the low count, and whether and which high count follows.
fn counts(chars: &mut Peekable<Chars<'_>>) -> Option<(u32, Option<Option<u32>>)> {
    let low = count(chars)?;
    match chars.next()? {
        '}' => return Some((low, None)),
        ',' => {}
        _ => return None,
    }
    if chars.peek() == Some(&'}') {
        chars.next();
        return Some((low, Some(None)));
    }
    let high = count(chars)?;
    (chars.next()? == '}').then_some((low, Some(Some(high))))
}

/// A number without leading zeros; large ones saturate.
fn count(chars: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = 0;
    let mut value = 0_u32;
    let mut has_leading_zero = false;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        has_leading_zero |= digits > 0 && value == 0;
        value = value.saturating_mul(10).saturating_add(digit);
        digits += 1;
    }
    (digits > 0 && !has_leading_zero).then_some(value)
}

#[cfg(test)]
#[path = "regexes_tests.rs"]
mod tests;
