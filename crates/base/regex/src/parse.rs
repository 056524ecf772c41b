//! The spelling of patterns.

use alloc::{boxed::Box, vec, vec::Vec};
use core::{iter::Peekable, str::Chars};

use crate::{
    set::{self, LAST, Set},
    unicode,
};

/// Groups and classes within each other.
const DEPTH_MAX: usize = 200;

/// A part of a pattern.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Set(Set),
    At(Place),
    /// One after the other; none: nothing.
    All(Vec<Node>),
    /// The first that fits is preferred.
    Any(Vec<Node>),
    Repeat {
        node: Box<Node>,
        least: u32,
        most: Option<u32>,
        greedy: bool,
    },
}

/// A condition on a place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordEdge,
    NoWordEdge,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    lines: bool,
    dot_all: bool,
    swap_greed: bool,
}

type Result<T> = core::result::Result<T, &'static str>;

pub(crate) fn is_meta(c: char) -> bool {
    matches!(
        c,
        '\\' | '.'
            | '+'
            | '*'
            | '?'
            | '('
            | ')'
            | '|'
            | '['
            | ']'
            | '{'
            | '}'
            | '^'
            | '$'
            | '#'
            | '&'
            | '-'
            | '~'
    )
}

pub(crate) fn parse(pattern: &str) -> Result<Node> {
    let mut parser = Parser { chars: pattern.chars().peekable(), flags: Flags::default(), depth: 0 };
    let node = parser.alternatives()?;
    if parser.chars.next().is_some() { Err("unopened group") } else { Ok(node) }
}

struct Parser<'p> {
    chars: Peekable<Chars<'p>>,
    flags: Flags,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, c: char) -> bool {
        self.chars.next_if_eq(&c).is_some()
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err("exceeded the maximum depth") } else { Ok(()) }
    }

    /// Up to the end or the bracket that closes the group. Flags hold to the end of the group that they are set in.
    fn alternatives(&mut self) -> Result<Node> {
        self.deeper()?;
        let flags = self.flags;
        let mut branches = vec![];
        let mut parts = vec![];
        loop {
            match self.chars.peek() {
                None | Some(')') => break,
                Some('|') => {
                    self.chars.next();
                    branches.push(Node::All(core::mem::take(&mut parts)));
                }
                Some(_) => {
                    if let Some(part) = self.part()? {
                        let part = self.repetition(part)?;
                        parts.push(part);
                    }
                }
            }
        }
        self.flags = flags;
        self.depth -= 1;
        let last = Node::All(parts);
        if branches.is_empty() {
            return Ok(last);
        }
        branches.push(last);
        Ok(Node::Any(branches))
    }

    /// `None`: flags alone.
    fn part(&mut self) -> Result<Option<Node>> {
        let Some(c) = self.chars.next() else { return Err("unexpected end") };
        Ok(Some(match c {
            '(' => return self.group(),
            '[' => Node::Set(self.class()?),
            '.' if self.flags.dot_all => Node::Set(vec![(0, LAST)]),
            '.' => Node::Set(set::negated(&[(0x0a, 0x0a)])),
            '^' if self.flags.lines => Node::At(Place::LineStart),
            '^' => Node::At(Place::TextStart),
            '$' if self.flags.lines => Node::At(Place::LineEnd),
            '$' => Node::At(Place::TextEnd),
            '\\' => self.escape()?,
            '*' | '+' | '?' => return Err("repetition operator missing expression"),
            c => self.literal(c),
        }))
    }

    fn literal(&self, c: char) -> Node {
        let set = vec![(u32::from(c), u32::from(c))];
        Node::Set(if self.flags.ignore_case { unicode::folded(set) } else { set })
    }

    fn escape(&mut self) -> Result<Node> {
        match self.chars.next() {
            Some('A') => Ok(Node::At(Place::TextStart)),
            Some('z') => Ok(Node::At(Place::TextEnd)),
            Some('b') => Ok(Node::At(Place::WordEdge)),
            Some('B') => Ok(Node::At(Place::NoWordEdge)),
            Some(c @ ('p' | 'P')) => Ok(Node::Set(self.property(c == 'P')?)),
            Some(c) if is_meta(c) => Ok(self.literal(c)),
            Some(_) | None => Err("unrecognized escape sequence"),
        }
    }

    fn group(&mut self) -> Result<Option<Node>> {
        let outside = self.flags;
        if self.eat('?') {
            let mut on = true;
            loop {
                match self.chars.next() {
                    Some('i') => self.flags.ignore_case = on,
                    Some('m') => self.flags.lines = on,
                    Some('s') => self.flags.dot_all = on,
                    Some('U') => self.flags.swap_greed = on,
                    // Only edges of words are written without Unicode, and these are of ASCII anyway.
                    Some('u') if !on => {}
                    Some('-') if on => on = false,
                    Some(')') => return Ok(None),
                    Some(':') => break,
                    Some(_) | None => return Err("unrecognized flag"),
                }
            }
        }
        let node = self.alternatives()?;
        self.flags = outside;
        if self.eat(')') { Ok(Some(node)) } else { Err("unclosed group") }
    }

    fn repetition(&mut self, node: Node) -> Result<Node> {
        let (least, most) = match self.chars.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.chars.next();
                let least = self.number()?;
                let most = match (self.eat(','), self.chars.peek()) {
                    (false, _) => Some(least),
                    (true, Some('}')) => None,
                    (true, _) => Some(self.number()?),
                };
                if self.chars.peek() != Some(&'}') || most.is_some_and(|most| most < least) {
                    return Err("invalid repetition count range");
                }
                (least, most)
            }
            Some(_) | None => return Ok(node),
        };
        self.chars.next();
        let greedy = self.eat('?') == self.flags.swap_greed;
        Ok(Node::Repeat { node: Box::new(node), least, most, greedy })
    }

    fn number(&mut self) -> Result<u32> {
        let mut number: Option<u32> = None;
        while let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(10)) {
            self.chars.next();
            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
        }
        number.ok_or("repetition quantifier expects a valid decimal")
    }

    /// After its opening bracket.
    fn class(&mut self) -> Result<Set> {
        self.deeper()?;
        let negated = self.eat('^');
        let mut ranges: Set = vec![];
        loop {
            match self.chars.next() {
                None => return Err("unclosed character class"),
                Some(']') => break,
                Some('[') if self.eat(':') => ranges.extend(self.posix()?),
                Some('[') => ranges.extend(self.class()?),
                Some('\\') if matches!(self.chars.peek(), Some('p' | 'P')) => {
                    let negated = self.chars.next() == Some('P');
                    ranges.extend(self.property(negated)?);
                }
                Some(first) => ranges.push(self.range(first)?),
            }
        }
        self.depth -= 1;
        Ok(self.finish(ranges, negated))
    }

    fn finish(&self, ranges: Set, negated: bool) -> Set {
        let ranges = set::ordered(ranges);
        let ranges = if self.flags.ignore_case { unicode::folded(ranges) } else { ranges };
        if negated { set::negated(&ranges) } else { ranges }
    }

    fn range(&mut self, first: char) -> Result<(u32, u32)> {
        let low = self.class_char(first)?;
        if !self.eat('-') {
            return Ok((low, low));
        }
        let Some(last) = self.chars.next() else { return Err("unclosed character class") };
        let high = self.class_char(last)?;
        if high < low { Err("invalid character class range") } else { Ok((low, high)) }
    }

    fn class_char(&mut self, first: char) -> Result<u32> {
        if first != '\\' {
            return Ok(u32::from(first));
        }
        Ok(match self.chars.next() {
            Some('t') => 0x09,
            Some('n') => 0x0a,
            Some('f') => 0x0c,
            Some('r') => 0x0d,
            Some('x') => return self.hexadecimal(),
            Some(c) if is_meta(c) => u32::from(c),
            Some(_) | None => return Err("unrecognized escape sequence"),
        })
    }

    /// `20` or `{1f600}`.
    fn hexadecimal(&mut self) -> Result<u32> {
        const WRONG: &str = "invalid hexadecimal digit";
        let braces = self.eat('{');
        let (mut value, mut digits) = (0_u32, 0);
        while braces || digits < 2 {
            let Some(c) = self.chars.next() else { return Err(WRONG) };
            if braces && c == '}' && digits > 0 {
                break;
            }
            let digit = c.to_digit(16).ok_or(WRONG)?;
            value = value.checked_mul(16).and_then(|value| value.checked_add(digit)).ok_or(WRONG)?;
            digits += 1;
        }
        char::from_u32(value).map(u32::from).ok_or(WRONG)
    }

    /// After `[:`.
    fn posix(&mut self) -> Result<Set> {
        let negated = self.eat('^');
        let name = self.word(':')?;
        if !self.eat(']') {
            return Err("unclosed character class");
        }
        let ascii: &[(char, char)] = match &name[..] {
            "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
            "alpha" => &[('A', 'Z'), ('a', 'z')],
            "ascii" => &[('\0', '\x7f')],
            "blank" => &[('\t', '\t'), (' ', ' ')],
            "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
            "digit" => &[('0', '9')],
            "graph" => &[('!', '~')],
            "lower" => &[('a', 'z')],
            "print" => &[(' ', '~')],
            "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
            "space" => &[('\t', '\r'), (' ', ' ')],
            "upper" => &[('A', 'Z')],
            "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
            "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
            _ => return Err("unrecognized character class"),
        };
        Ok(self
            .finish(ascii.iter().map(|(low, high)| (u32::from(*low), u32::from(*high))).collect(), negated))
    }

    /// After `\p`.
    fn property(&mut self, negated: bool) -> Result<Set> {
        if !self.eat('{') {
            return Err("incomplete escape sequence");
        }
        let name = self.word('}')?;
        let set = unicode::property(&name).ok_or("Unicode property not found")?;
        Ok(self.finish(set, negated))
    }

    /// Up to an end, which is not part of it.
    fn word(&mut self, end: char) -> Result<alloc::string::String> {
        let mut word = alloc::string::String::new();
        loop {
            match self.chars.next() {
                Some(c) if c == end => return Ok(word),
                Some(c) => word.push(c),
                None => return Err("unexpected end"),
            }
        }
    }
}
