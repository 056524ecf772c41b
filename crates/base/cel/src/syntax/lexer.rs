//! Tokens of CEL.

use alloc::{format, string::String, vec::Vec};
use core::ops::Range;

use super::ast::Span;
use crate::error::Issue;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tok {
    Ident,
    Int,
    Uint,
    Float,
    Str,
    Bytes,
    True,
    False,
    Null,
    In,
    EscapedIdent,
    Equals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    And,
    Or,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) span: Span,
}

/// All tokens of `source`, ended by [`Tok::End`]; or the first character that starts none.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut tokens = Vec::with_capacity(source.len() / 4 + 2);
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.tok == Tok::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, Issue> {
        self.skip_blank();
        let start = self.at;
        let Some(first) = self.peek(0) else {
            return Ok(token(Tok::End, start..start));
        };
        let tok = match first {
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_some_and(|b| b.is_ascii_digit()) => self.number(),
            b'"' | b'\'' => self.string(false, Tok::Str)?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word()?,
            b'`' => self.escaped_ident()?,
            _ => self.punctuation()?,
        };
        Ok(token(tok, start..self.at))
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek(0) {
            if matches!(byte, b'\t' | b' ' | b'\r' | b'\n' | 0x0c) {
                self.at += 1;
            } else if byte == b'/' && self.peek(1) == Some(b'/') {
                while self.peek(0).is_some_and(|b| b != b'\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn digits(&mut self, accept: fn(&u8) -> bool) {
        while self.peek(0).is_some_and(|b| accept(&b)) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Tok {
        if self.peek(0) == Some(b'0')
            && self.peek(1) == Some(b'x')
            && self.peek(2).is_some_and(|b| b.is_ascii_hexdigit())
        {
            self.at += 2;
            self.digits(u8::is_ascii_hexdigit);
            return self.unsigned_or(Tok::Int);
        }
        self.digits(u8::is_ascii_digit);
        let mut tok = Tok::Int;
        if self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
            self.digits(u8::is_ascii_digit);
            tok = Tok::Float;
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + sign;
                self.digits(u8::is_ascii_digit);
                tok = Tok::Float;
            }
        }
        if tok == Tok::Int { self.unsigned_or(tok) } else { tok }
    }

    fn unsigned_or(&mut self, tok: Tok) -> Tok {
        if matches!(self.peek(0), Some(b'u' | b'U')) {
            self.at += 1;
            return Tok::Uint;
        }
        tok
    }

    /// A name, a keyword, or a string with a prefix.
    fn word(&mut self) -> Result<Tok, Issue> {
        let (prefix, raw, tok) = match (self.peek(0), self.peek(1)) {
            (Some(b'r' | b'R'), Some(b'"' | b'\'')) => (1, true, Tok::Str),
            (Some(b'b' | b'B'), Some(b'"' | b'\'')) => (1, false, Tok::Bytes),
            (Some(b'b' | b'B'), Some(b'r' | b'R')) if matches!(self.peek(2), Some(b'"' | b'\'')) => {
                (2, true, Tok::Bytes)
            }
            _ => (0, false, Tok::Ident),
        };
        if prefix > 0 {
            self.at += prefix;
            return self.string(raw, tok);
        }
        let start = self.at;
        self.digits(|b| b.is_ascii_alphanumeric() || *b == b'_');
        Ok(match &self.source[start..self.at] {
            "true" => Tok::True,
            "false" => Tok::False,
            "null" => Tok::Null,
            "in" => Tok::In,
            _ => Tok::Ident,
        })
    }

    /// From the opening quote to the end of the closing one.
    fn string(&mut self, raw: bool, tok: Tok) -> Result<Tok, Issue> {
        let start = self.at;
        let quote = self.bytes[start];
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        self.at += width;
        while let Some(byte) = self.peek(0) {
            if byte == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.at += width;
                return Ok(tok);
            }
            if !triple && matches!(byte, b'\n' | b'\r') {
                break;
            }
            self.at += if byte == b'\\' && !raw { 2 } else { 1 };
        }
        let end = self.source.len();
        self.at = end;
        Err(Issue::new("Syntax error: this string has no closing quote", start..end, self.source))
    }

    fn escaped_ident(&mut self) -> Result<Tok, Issue> {
        let start = self.at;
        self.at += 1;
        self.digits(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b' '));
        if self.peek(0) == Some(b'`') && self.at > start + 1 {
            self.at += 1;
            return Ok(Tok::EscapedIdent);
        }
        Err(self.unknown(start))
    }

    fn punctuation(&mut self) -> Result<Tok, Issue> {
        let start = self.at;
        let (tok, width) = match (self.bytes[start], self.peek(1)) {
            (b'=', Some(b'=')) => (Tok::Equals, 2),
            (b'!', Some(b'=')) => (Tok::NotEquals, 2),
            (b'<', Some(b'=')) => (Tok::LessEquals, 2),
            (b'>', Some(b'=')) => (Tok::GreaterEquals, 2),
            (b'&', Some(b'&')) => (Tok::And, 2),
            (b'|', Some(b'|')) => (Tok::Or, 2),
            (b'<', _) => (Tok::Less, 1),
            (b'>', _) => (Tok::Greater, 1),
            (b'!', _) => (Tok::Not, 1),
            (b'[', _) => (Tok::LBracket, 1),
            (b']', _) => (Tok::RBracket, 1),
            (b'{', _) => (Tok::LBrace, 1),
            (b'}', _) => (Tok::RBrace, 1),
            (b'(', _) => (Tok::LParen, 1),
            (b')', _) => (Tok::RParen, 1),
            (b'.', _) => (Tok::Dot, 1),
            (b',', _) => (Tok::Comma, 1),
            (b'-', _) => (Tok::Minus, 1),
            (b'?', _) => (Tok::Question, 1),
            (b':', _) => (Tok::Colon, 1),
            (b'+', _) => (Tok::Plus, 1),
            (b'*', _) => (Tok::Star, 1),
            (b'/', _) => (Tok::Slash, 1),
            (b'%', _) => (Tok::Percent, 1),
            _ => return Err(self.unknown(start)),
        };
        self.at += width;
        Ok(tok)
    }

    fn unknown(&self, start: usize) -> Issue {
        let shown: String = self.source[start..].chars().take(1).collect();
        let hint = match shown.as_str() {
            "=" => "; compare with ==",
            "&" => "; write && for a logical and",
            "|" => "; write || for a logical or",
            _ => "",
        };
        Issue::new(
            format!("Syntax error: token recognition error at: '{shown}'{hint}"),
            start..start + shown.len(),
            self.source,
        )
    }
}

fn token(tok: Tok, range: Range<usize>) -> Token {
    // Sources are at most 10 KiB, far below 4 GiB.
    let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Token { tok, span: Span { start: clamp(range.start), end: clamp(range.end) } }
}
