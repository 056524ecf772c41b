//! Literals that could only fail at run time: durations, timestamps, patterns, format strings, mixed lists.

use alloc::{format, string::String, vec, vec::Vec};

use super::{checked::Checked, decls::Func, types::Type};
use crate::{
    error::Issue,
    eval::time,
    ext::format as template,
    syntax::ast::{Ast, Kind, Literal, NodeId},
};

/// Everything that is wrong with the literals of an expression that is otherwise well typed.
pub(crate) fn literals(ast: &Ast<'_>, checked: &Checked, source: &str) -> Vec<Issue> {
    let exempt = within_format(ast, checked);
    let mut issues = Vec::new();
    for (id, exempt) in ast.ids().zip(exempt) {
        let mut report = |id: NodeId, message: String| issues.push(Issue::new(message, ast.span(id), source));
        match ast.kind(id) {
            Kind::Call { target, args, .. } => {
                if let (Some(call), Some(first)) = (checked.call(id), args.first()) {
                    if let Some(message) = literal_argument(call.function.func, ast.literal(*first)) {
                        report(*first, message);
                    }
                    if call.function.func == Func::Format
                        && let Some(Literal::String(template)) = target.and_then(|target| ast.literal(target))
                        && let Kind::List(elements) = ast.kind(*first)
                        && let Err((at, message)) = template_fits(template, elements, ast, checked)
                    {
                        report(at.unwrap_or(id), message);
                    }
                }
            }
            Kind::List(elements) if !exempt => {
                let mut typed =
                    elements.iter().map(|(id, optional)| (*id, element_type(checked, *id, *optional)));
                if let Some((_, first)) = typed.next()
                    && let Some((id, other)) = typed.find(|(_, t)| *t != first)
                {
                    report(id, format!("expected type '{first}' but found '{other}'"));
                }
            }
            Kind::Map(entries) if !exempt => {
                let Some(first) = entries.first() else { continue };
                let value = element_type(checked, first.value, first.optional);
                for entry in entries {
                    let (key, other) = (checked.of(first.key), checked.of(entry.key));
                    if key != other {
                        report(entry.key, format!("expected type '{key}' but found '{other}'"));
                    }
                    let other = element_type(checked, entry.value, entry.optional);
                    if value != other {
                        report(entry.value, format!("expected type '{value}' but found '{other}'"));
                    }
                }
            }
            Kind::Literal(_) | Kind::Ident(_) | Kind::Select { .. } => {}
            Kind::List(_) | Kind::Map(_) | Kind::Comprehension(_) => {}
        }
    }
    issues
}

fn element_type(checked: &Checked, id: NodeId, optional: bool) -> &Type {
    let t = checked.of(id);
    if optional { t.unwrap_optional().0 } else { t }
}

fn literal_argument(func: Func, literal: Option<&Literal>) -> Option<String> {
    let Some(Literal::String(text)) = literal else { return None };
    let why = if func == Func::ToDuration {
        time::parse_duration(text).err().map(|_| "invalid duration argument; write for example \"1h30m\"")
    } else if func == Func::ToTimestamp {
        time::parse_timestamp(text)
            .err()
            .map(|_| "invalid timestamp argument; write for example \"2026-01-31T12:00:00Z\"")
    } else if func == Func::Matches {
        crate::ext::regexes::compile(text)
            .err()
            .map(|_| "invalid matches argument; it is no regular expression")
    } else {
        None
    };
    why.map(Into::into)
}

/// Whether a template's clauses suit the types of its arguments; else which does not, if it is one, and why.
fn template_fits(
    template: &str,
    elements: &[(NodeId, bool)],
    ast: &Ast<'_>,
    checked: &Checked,
) -> Result<(), (Option<NodeId>, String)> {
    let mut args = elements.iter();
    for piece in template::parse(template).map_err(|error| (None, error.0))? {
        let template::Piece::Clause(clause) = piece else { continue };
        let Some((arg, _)) = args.next() else {
            return Err((
                None,
                format!("index {} out of range: there are more clauses than arguments", elements.len()),
            ));
        };
        clause_fits(clause, *arg, ast, checked)?;
    }
    match args.len() {
        0 => Ok(()),
        more => Err((None, format!("too many arguments supplied to string.format: {more} without a clause"))),
    }
}

/// Whether a clause suits an argument, and what is written out in it.
fn clause_fits(
    clause: template::Clause,
    arg: NodeId,
    ast: &Ast<'_>,
    checked: &Checked,
) -> Result<(), (Option<NodeId>, String)> {
    let t = checked.of(arg);
    clause
        .check(kind_of(t), &format!("{t:#}"))
        .map_err(|error| (Some(arg), format!("error during formatting: {error}")))?;
    let inner = |id: NodeId| clause_fits(clause, id, ast, checked);
    match ast.kind(arg) {
        Kind::List(elements) => elements.iter().try_for_each(|(id, _)| inner(*id)),
        Kind::Map(entries) => entries.iter().try_for_each(|entry| {
            inner(entry.key)?;
            inner(entry.value)
        }),
        Kind::Literal(_) | Kind::Ident(_) | Kind::Select { .. } => Ok(()),
        Kind::Call { .. } | Kind::Comprehension(_) => Ok(()),
    }
}

fn kind_of(t: &Type) -> template::Kind {
    match t {
        Type::Dyn | Type::Any | Type::Param(_) | Type::Error => template::Kind::Dyn,
        Type::Null => template::Kind::Null,
        Type::Bool => template::Kind::Bool,
        Type::Int => template::Kind::Int,
        Type::Uint => template::Kind::Uint,
        Type::Double => template::Kind::Double,
        Type::String => template::Kind::String,
        Type::Bytes => template::Kind::Bytes,
        Type::Duration => template::Kind::Duration,
        Type::Timestamp => template::Kind::Timestamp,
        Type::List(_) => template::Kind::List,
        Type::Map(_) => template::Kind::Map,
        Type::Meta(_) => template::Kind::Type,
        Type::Optional(_) | Type::Device | Type::Quantity | Type::Semver => template::Kind::Other,
        Type::Url | Type::NamedFormat | Type::Ip | Type::Cidr | Type::Authorization(_) => {
            template::Kind::Other
        }
        Type::Object(_) => template::Kind::Map,
    }
}

/// Which nodes stand within a call of `format`: its list may mix types.
fn within_format(ast: &Ast<'_>, checked: &Checked) -> Vec<bool> {
    let mut exempt = vec![false; ast.nodes.len()];
    // Children are numbered before their parents, so one pass downwards reaches everything.
    for id in ast.ids().rev() {
        let is_format = checked.call(id).is_some_and(|call| call.function.func == Func::Format);
        if !exempt[id.index()] && !is_format {
            continue;
        }
        let mut mark = |id: NodeId| exempt[id.index()] = true;
        match ast.kind(id) {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => mark(*operand),
            Kind::Call { target, args, .. } => target.iter().chain(args).for_each(|id| mark(*id)),
            Kind::List(elements) => elements.iter().for_each(|(id, _)| mark(*id)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                mark(entry.key);
                mark(entry.value);
            }),
            Kind::Comprehension(c) => {
                [c.range, c.init, c.condition, c.step, c.result].into_iter().for_each(mark)
            }
        }
    }
    exempt
}
