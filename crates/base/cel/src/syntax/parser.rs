//! The grammar, by recursive descent; operators by precedence.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each rule knows its own tokens and leaves the others alone"
)]

use alloc::{format, vec, vec::Vec};

use super::{
    ast::{Ast, Kind, Literal, MapEntry, NodeId, Span, op},
    build::{Parsed, Parser},
    lexer::{Tok, Token, tokens},
    literal, macros,
};
use crate::error::Issue;

/// How deep selections, calls, indexes, comparisons, sums and nested expressions may stand in each other.
const DEPTH_MAX: u16 = 250;

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The names that can follow a leading dot.
const GLOBALS: [&str; 14] = [
    ".device",
    ".bool",
    ".int",
    ".uint",
    ".double",
    ".string",
    ".bytes",
    ".null_type",
    ".list",
    ".map",
    ".type",
    ".optional_type",
    ".google",
    ".net",
];

/// Parses `source` and expands its macros.
pub(crate) fn parse(source: &str) -> Result<Ast<'_>, Issue> {
    let mut parser = Parser {
        source,
        tokens: tokens(source)?,
        at: 0,
        nodes: Vec::with_capacity(source.len() / 6 + 4),
        depths: Vec::new(),
        nesting: 0,
    };
    let root = parser.expression()?;
    parser.expect(Tok::End, "the end of the expression")?;
    Ok(Ast { nodes: parser.nodes, root })
}

impl<'s> Parser<'s> {
    fn peek(&self) -> Tok {
        self.tokens[self.at].tok
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at];
        if token.tok != Tok::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, tok: Tok) -> Option<Token> {
        (self.peek() == tok).then(|| self.advance())
    }

    fn text(&self, span: Span) -> &'s str {
        &self.source[span.start as usize..span.end as usize]
    }

    fn expect(&mut self, tok: Tok, wanted: &str) -> Parsed<Token> {
        match self.eat(tok) {
            Some(token) => Ok(token),
            None => Err(self.unexpected(wanted)),
        }
    }

    fn unexpected(&self, wanted: &str) -> Issue {
        let found = match self.peek() {
            Tok::End => "the end of the expression",
            _ => self.text(self.span()),
        };
        self.issue(&format!("Syntax error: found '{found}' where {wanted} must be"), self.span())
    }

    /// Keeps what grows node by node within [`DEPTH_MAX`].
    fn bounded(&self, id: NodeId) -> Parsed {
        if self.depths[id.index()] > DEPTH_MAX {
            return Err(self.issue_at(id, "max recursion depth exceeded: split the expression"));
        }
        Ok(id)
    }

    fn expression(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > DEPTH_MAX {
            return Err(self.issue("expression recursion limit exceeded: nest less deeply", self.span()));
        }
        let condition = self.logical(Tok::Or)?;
        let parsed = match self.eat(Tok::Question) {
            None => Ok(condition),
            Some(question) => {
                let yes = self.logical(Tok::Or)?;
                self.expect(Tok::Colon, "':'")?;
                let no = self.expression()?;
                let id = self.call(op::CONDITIONAL, vec![condition, yes, no], question.span);
                self.bounded(id)
            }
        };
        self.nesting -= 1;
        parsed
    }

    /// `a || b || c` or `a && b && c`, as one call with all terms.
    fn logical(&mut self, tok: Tok) -> Parsed {
        let (function, is_or) = if tok == Tok::Or { (op::OR, true) } else { (op::AND, false) };
        let first = if is_or { self.logical(Tok::And)? } else { self.relation()? };
        let span = self.span();
        let mut terms = vec![first];
        while self.eat(tok).is_some() {
            terms.push(if is_or { self.logical(Tok::And)? } else { self.relation()? });
        }
        Ok(if terms.len() == 1 { first } else { self.call(function, terms, span) })
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let function = match self.peek() {
                Tok::Less => op::LESS,
                Tok::LessEquals => op::LESS_EQUALS,
                Tok::Greater => op::GREATER,
                Tok::GreaterEquals => op::GREATER_EQUALS,
                Tok::Equals => op::EQUALS,
                Tok::NotEquals => op::NOT_EQUALS,
                Tok::In => op::IN,
                _ => return Ok(left),
            };
            let span = self.advance().span;
            let right = self.sum()?;
            let id = self.call(function, vec![left, right], span);
            left = self.bounded(id)?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let function = match self.peek() {
                Tok::Plus => op::ADD,
                Tok::Minus => op::SUBTRACT,
                _ => return Ok(left),
            };
            let span = self.advance().span;
            let right = self.product()?;
            let id = self.call(function, vec![left, right], span);
            left = self.bounded(id)?;
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let function = match self.peek() {
                Tok::Star => op::MULTIPLY,
                Tok::Slash => op::DIVIDE,
                Tok::Percent => op::MODULO,
                _ => return Ok(left),
            };
            let span = self.advance().span;
            let right = self.unary()?;
            let id = self.call(function, vec![left, right], span);
            left = self.bounded(id)?;
        }
    }

    /// Signs in pairs cancel each other; a single minus before a number is part of it.
    fn unary(&mut self) -> Parsed {
        let (tok, function) = match self.peek() {
            Tok::Not => (Tok::Not, op::NOT),
            Tok::Minus if !matches!(self.tokens[self.at + 1].tok, Tok::Int | Tok::Float) => {
                (Tok::Minus, op::NEGATE)
            }
            _ => return self.member(),
        };
        let span = self.span();
        let mut count = 0;
        while self.eat(tok).is_some() {
            count += 1;
        }
        let operand = self.member()?;
        Ok(if count % 2 == 0 { operand } else { self.call(function, vec![operand], span) })
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        loop {
            let id = match self.peek() {
                Tok::Dot => self.selection(operand)?,
                Tok::LBracket => {
                    let span = self.advance().span;
                    let optional = self.eat(Tok::Question).is_some();
                    let index = self.expression()?;
                    self.expect(Tok::RBracket, "']'")?;
                    self.call(if optional { op::OPT_INDEX } else { op::INDEX }, vec![operand, index], span)
                }
                // DEVIATION(cel-messages).
                Tok::LBrace => {
                    return Err(self.issue("no type can be created here: only maps take {...}", self.span()));
                }
                _ => return Ok(operand),
            };
            operand = self.bounded(id)?;
        }
    }

    /// `.field`, `.?field` or `.function(args)`.
    fn selection(&mut self, operand: NodeId) -> Parsed {
        let dot = self.advance().span;
        let optional = self.eat(Tok::Question).is_some();
        if self.peek() == Tok::EscapedIdent {
            return Err(self.issue("unsupported syntax: '`'; write [\"name\"] instead", self.span()));
        }
        let name = self.expect(Tok::Ident, "a field name")?;
        let field = self.text(name.span);
        if optional {
            let literal = self.literal(Literal::String(field.into()), name.span);
            return Ok(self.call(op::OPT_SELECT, vec![operand, literal], dot));
        }
        if self.peek() != Tok::LParen {
            return Ok(self.add(Kind::Select { operand, field, test_only: false }, dot));
        }
        let open = self.span();
        let args = self.arguments()?;
        if let Some(expanded) = macros::member(self, field, operand, &args, open) {
            return expanded;
        }
        Ok(self.add(Kind::Call { function: field, target: Some(operand), args }, open))
    }

    fn arguments(&mut self) -> Parsed<Vec<NodeId>> {
        self.expect(Tok::LParen, "'('")?;
        let mut args = Vec::new();
        if self.eat(Tok::RParen).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.eat(Tok::Comma).is_none() {
                self.expect(Tok::RParen, "',' or ')'")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let token = self.tokens[self.at];
        match token.tok {
            Tok::Ident | Tok::Dot => self.name(),
            Tok::LParen => {
                self.advance();
                let inner = self.expression()?;
                self.expect(Tok::RParen, "')'")?;
                Ok(inner)
            }
            Tok::LBracket => self.list(),
            Tok::LBrace => self.map(),
            Tok::Minus
            | Tok::Int
            | Tok::Uint
            | Tok::Float
            | Tok::Str
            | Tok::Bytes
            | Tok::True
            | Tok::False
            | Tok::Null => self.constant(),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// `name`, `.name` or `name(args)`.
    fn name(&mut self) -> Parsed {
        let start = self.span();
        let global = self.eat(Tok::Dot).is_some();
        let token = self.expect(Tok::Ident, "a name")?;
        let bare = self.text(token.span);
        if RESERVED.contains(&bare) {
            return Err(self.issue(&format!("reserved identifier: {bare}"), token.span));
        }
        let span = Span { start: if global { start.start } else { token.span.start }, end: token.span.end };
        let name = if global { self.global_name(span, bare) } else { bare };
        if self.peek() != Tok::LParen {
            return Ok(self.ident(name, token.span));
        }
        let open = self.span();
        let args = self.arguments()?;
        if name == "has" && args.len() == 1 {
            return macros::has(self, args[0], open);
        }
        let id = self.call(name, args, open);
        self.bounded(id)
    }

    /// A name with its leading dot. Where blanks part them, only names that exist matter.
    fn global_name(&self, span: Span, bare: &str) -> &'s str {
        let text = self.text(span);
        if text.len() == bare.len() + 1 {
            return text;
        }
        GLOBALS.into_iter().find(|name| &name[1..] == bare).unwrap_or(".?")
    }

    fn list(&mut self) -> Parsed {
        let span = self.advance().span;
        let mut elements = Vec::new();
        while !matches!(self.peek(), Tok::RBracket | Tok::Comma) {
            let optional = self.eat(Tok::Question).is_some();
            elements.push((self.expression()?, optional));
            if self.peek() != Tok::Comma || self.tokens[self.at + 1].tok == Tok::RBracket {
                break;
            }
            self.advance();
        }
        self.eat(Tok::Comma);
        self.expect(Tok::RBracket, "',' or ']'")?;
        Ok(self.add(Kind::List(elements), span))
    }

    fn map(&mut self) -> Parsed {
        let span = self.advance().span;
        let mut entries = Vec::new();
        while !matches!(self.peek(), Tok::RBrace | Tok::Comma) {
            let optional = self.eat(Tok::Question).is_some();
            let key = self.expression()?;
            self.expect(Tok::Colon, "':'")?;
            let value = self.expression()?;
            entries.push(MapEntry { key, value, optional });
            if self.peek() != Tok::Comma || self.tokens[self.at + 1].tok == Tok::RBrace {
                break;
            }
            self.advance();
        }
        self.eat(Tok::Comma);
        self.expect(Tok::RBrace, "',' or '}'")?;
        Ok(self.add(Kind::Map(entries), span))
    }

    fn constant(&mut self) -> Parsed {
        let start = self.span();
        let negative = self.eat(Tok::Minus).is_some();
        let token = self.advance();
        let span = Span { start: start.start, end: token.span.end };
        let text = self.text(token.span);
        let (value, what) = match token.tok {
            Tok::Int => (literal::int(text, negative), "invalid int literal"),
            Tok::Float => (literal::double(text, negative), "invalid double literal"),
            Tok::Uint => (literal::uint(text), "invalid uint literal"),
            Tok::True => (Some(Literal::Bool(true)), ""),
            Tok::False => (Some(Literal::Bool(false)), ""),
            Tok::Null => (Some(Literal::Null), ""),
            Tok::Str => match literal::string(text) {
                Ok(value) => (Some(value), ""),
                Err(why) => (None, why),
            },
            Tok::Bytes => match literal::bytes(text) {
                Ok(value) => (Some(value), ""),
                Err(why) => (None, why),
            },
            _ => (None, "Syntax error: a number must follow '-'"),
        };
        match value {
            Some(value) => Ok(self.literal(value, span)),
            None => Err(self.issue(what, span)),
        }
    }
}
