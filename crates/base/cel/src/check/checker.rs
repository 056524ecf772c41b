//! The type checker: gradual, with overloads and type parameters.

use alloc::{format, string::String, vec, vec::Vec};

use super::{
    checked::{CallRef, Checked, Ref},
    decls::{self, Function},
    environment::Env,
    library,
    types::{Mapping, Type, most_general},
    validate,
};
use crate::{
    error::{CompileError, Issue},
    syntax::ast::{Ast, Comprehension, Kind, Literal, MapEntry, NodeId, op},
};

/// Checks every part of `ast`, which speaks of a device.
pub(crate) fn check(ast: &Ast<'_>, env: Env, source: &str) -> Result<Checked, CompileError> {
    check_with(ast, env, &[], source)
}

/// Checks every part of `ast`, which speaks of these variables, or of a device if there are none.
pub(crate) fn check_with(
    ast: &Ast<'_>,
    env: Env,
    variables: &[(&'static str, Type)],
    source: &str,
) -> Result<Checked, CompileError> {
    let count = ast.nodes.len();
    let mut checker = Checker {
        ast,
        env,
        variables,
        source,
        types: vec![None; count],
        refs: vec![Ref::None; count],
        scope: Vec::new(),
        mapping: Mapping::default(),
        issues: Vec::new(),
    };
    checker.check(ast.root);
    let Checker { types, refs, mapping, mut issues, .. } = checker;
    let finish = |t: Option<Type>| mapping.substitute(&t.unwrap_or(Type::Error), true);
    let checked = Checked { types: types.into_iter().map(finish).collect(), refs };
    if issues.is_empty() {
        issues = validate::literals(ast, &checked, source);
    }
    if issues.is_empty() {
        return Ok(checked);
    }
    issues.sort_by_key(|issue| (issue.span.start, issue.span.end));
    Err(CompileError { issues })
}

struct Checker<'a, 's> {
    ast: &'a Ast<'s>,
    env: Env,
    variables: &'a [(&'static str, Type)],
    source: &'a str,
    types: Vec<Option<Type>>,
    refs: Vec<Ref>,
    scope: Vec<(&'s str, Type)>,
    mapping: Mapping,
    issues: Vec<Issue>,
}

impl<'s> Checker<'_, 's> {
    /// The type of a node, found once.
    fn check(&mut self, id: NodeId) -> Type {
        if let Some(known) = &self.types[id.index()] {
            return known.clone();
        }
        let ast = self.ast;
        let found = match ast.kind(id) {
            Kind::Literal(literal) => type_of(literal),
            Kind::Ident(name) => self.ident(id, name),
            Kind::Select { operand, field, test_only } => self.select(id, *operand, field, *test_only),
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Comprehension(fold) => self.comprehension(fold),
        };
        self.types[id.index()] = Some(found.clone());
        found
    }

    fn report(&mut self, id: NodeId, message: impl Into<String>) -> Type {
        self.issues.push(Issue::new(message, self.ast.span(id), self.source));
        Type::Error
    }

    fn mismatch(&mut self, id: NodeId, expected: &Type, found: &Type) -> Type {
        let (expected, found) =
            (self.mapping.substitute(expected, true), self.mapping.substitute(found, true));
        self.report(id, format!("expected type '{expected}' but found '{found}'"))
    }

    fn local(&self, name: &str) -> Option<(u32, Type)> {
        let at = self.scope.iter().rposition(|(known, _)| *known == name)?;
        Some((u32::try_from(at).ok()?, self.scope[at].1.clone()))
    }

    fn ident(&mut self, id: NodeId, name: &str) -> Type {
        if let Some((slot, t)) = self.local(name) {
            self.refs[id.index()] = Ref::Local(slot);
            return t;
        }
        self.global(id, name).unwrap_or_else(|| {
            let hint = if self.scope.is_empty() && matches!(name, "driver" | "attributes" | "capacity") {
                format!("; did you mean device.{name}?")
            } else {
                String::new()
            };
            self.report(id, format!("undeclared reference to '{name}' (in container ''){hint}"))
        })
    }

    fn global(&mut self, id: NodeId, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(at) = self.variables.iter().position(|(known, _)| *known == name) {
            self.refs[id.index()] = Ref::Variable(u32::try_from(at).ok()?);
            return Some(self.variables[at].1.clone());
        }
        if name == "device" && self.variables.is_empty() {
            self.refs[id.index()] = Ref::Device;
            return Some(Type::Device);
        }
        let named = type_named(name)?;
        self.refs[id.index()] = Ref::Type(named.clone());
        Some(Type::meta(named))
    }

    fn select(&mut self, id: NodeId, operand: NodeId, field: &str, test_only: bool) -> Type {
        if !test_only
            && let Some(name) = self.qualified(id)
            && let Some(t) = self.global(id, &name)
        {
            return t;
        }
        let selected = self.field(id, operand, field, false);
        if test_only { Type::Bool } else { self.mapping.substitute(&selected, false) }
    }

    /// `a.b.c` as one name, unless `a` is a variable of a macro.
    fn qualified(&self, id: NodeId) -> Option<String> {
        let mut first = id;
        while let Kind::Select { operand, .. } = self.ast.kind(first) {
            first = *operand;
        }
        if let Kind::Ident(name) = self.ast.kind(first)
            && self.local(name).is_some()
        {
            return None;
        }
        self.namespace(id)
    }

    fn field(&mut self, id: NodeId, operand: NodeId, field: &str, optional: bool) -> Type {
        let found = self.check(operand);
        let found = self.mapping.substitute(&found, false);
        let (target, was_optional) = found.unwrap_optional();
        let selected = if let Type::Map(entry) = target {
            entry.1.clone()
        } else if let Type::Object(fields) = target {
            match fields.get(field) {
                Some(t) => t.clone(),
                None => self.report(id, format!("undefined field '{field}'")),
            }
        } else if *target == Type::Device {
            match self.env.device_field(field) {
                Some(t) => t,
                None => self.report(id, undefined_field(field, self.env)),
            }
        } else {
            if let Type::Param(_) = target {
                self.mapping.assignable(&Type::Dyn, target);
            } else if !target.is_dyn() && *target != Type::Error {
                self.report(id, format!("type '{target}' does not support field selection"));
            }
            Type::Dyn
        };
        if was_optional || optional { Type::optional(selected) } else { selected }
    }

    fn call(&mut self, id: NodeId, name: &str, target: Option<NodeId>, args: &[NodeId]) -> Type {
        if name == op::OPT_SELECT
            && let [operand, field] = args
            && let Some(Literal::String(field_name)) = self.ast.literal(*field)
        {
            self.check(*field);
            let selected = self.field(id, *operand, field_name, true);
            if let Some(function) = library::function(op::OPT_SELECT) {
                self.refs[id.index()] = Ref::Call(CallRef { function, fitting: 1, namespaced: false });
            }
            return self.mapping.substitute(&selected, false);
        }
        let arg_types: Vec<Type> = args.iter().map(|arg| self.check(*arg)).collect();
        let Some(target) = target else {
            return match self.function(name) {
                Some(function) => self.resolve(id, function, None, args, arg_types),
                None => self.undeclared(id, name),
            };
        };
        if let Some(mut prefix) = self.namespace(target) {
            prefix.push('.');
            prefix.push_str(name);
            if let Some(function) = self.function(&prefix) {
                return self.resolve(id, function, None, args, arg_types);
            }
        }
        let target_type = self.check(target);
        match self.function(name) {
            Some(function) => self.resolve(id, function, Some(target_type), args, arg_types),
            None => self.undeclared(id, name),
        }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        library::function(name)
            .filter(|found| found.name != decls::INCLUDES || self.env.has_list_attributes())
    }

    fn undeclared(&mut self, id: NodeId, name: &str) -> Type {
        let hint = match name {
            decls::INCLUDES => "; it needs list attributes to be enabled",
            _ => "",
        };
        self.report(id, format!("undeclared reference to '{name}' (in container ''){hint}"))
    }

    /// Names and selections as one dotted name; perhaps the first part of a function's.
    fn namespace(&self, id: NodeId) -> Option<String> {
        if let Kind::Ident(name) = self.ast.kind(id) {
            return Some((*name).into());
        }
        let Kind::Select { operand, field, test_only: false } = self.ast.kind(id) else { return None };
        let mut name = self.namespace(*operand)?;
        name.push('.');
        name.push_str(field);
        Some(name)
    }

    fn resolve(
        &mut self,
        id: NodeId,
        function: &'static Function,
        target: Option<Type>,
        args: &[NodeId],
        arg_types: Vec<Type>,
    ) -> Type {
        let is_member = target.is_some();
        if matches!(function.name, op::AND | op::OR) {
            return self.logical(id, function, args, &arg_types);
        }
        let mut given: Vec<Type> = target.into_iter().collect();
        given.extend(arg_types);
        let (mut fitting, mut result) = (0, None::<Type>);
        for (at, overload) in function.overloads.iter().enumerate() {
            if overload.member != is_member || overload.args.len() != given.len() {
                continue;
            }
            let first = if overload.is_generic() { self.mapping.fresh(2) } else { 0 };
            let (wanted, made) = overload.instantiate(first);
            if !self.mapping.assignable_all(given.iter().zip(&wanted)) {
                continue;
            }
            fitting |= 1 << at;
            let made = self.mapping.substitute(&made, false);
            result = Some(match result {
                Some(known) if !known.is_dyn() && known != made => Type::Dyn,
                Some(known) => known,
                None => made,
            });
        }
        match result {
            Some(result) => {
                self.refs[id.index()] = Ref::Call(CallRef { function, fitting, namespaced: !is_member });
                result
            }
            None => self.no_overload(id, function, &given, is_member),
        }
    }

    fn logical(&mut self, id: NodeId, function: &'static Function, args: &[NodeId], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (arg, t) in args.iter().zip(types) {
            if !self.mapping.assignable(t, &Type::Bool) {
                result = self.mismatch(*arg, &Type::Bool, t);
            }
        }
        self.refs[id.index()] = Ref::Call(CallRef { function, fitting: 1, namespaced: true });
        result
    }

    fn no_overload(&mut self, id: NodeId, function: &Function, given: &[Type], is_member: bool) -> Type {
        let types: Vec<Type> = given.iter().map(|t| self.mapping.substitute(t, true)).collect();
        let mut signature = String::new();
        let args = match types.split_first() {
            Some((target, args)) if is_member => {
                signature = format!("{target}.");
                args
            }
            _ => &types,
        };
        signature.push('(');
        for (at, t) in args.iter().enumerate() {
            signature.push_str(&format!("{}{t}", if at == 0 { "" } else { ", " }));
        }
        signature.push(')');
        let hint = hint(function, &types);
        self.report(
            id,
            format!("found no matching overload for '{}' applied to '{signature}'{hint}", function.name),
        )
    }

    fn list(&mut self, elements: &[(NodeId, bool)]) -> Type {
        let mut joined = None;
        for (element, optional) in elements {
            let found = self.element(*element, *optional);
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| Type::Param(self.mapping.fresh(1))))
    }

    /// The type that an element or entry adds; for an optional one, that of its value.
    fn element(&mut self, id: NodeId, optional: bool) -> Type {
        let found = self.check(id);
        if !optional {
            return found;
        }
        let (inner, is_optional) = found.unwrap_optional();
        if !is_optional && !inner.is_dyn() {
            self.mismatch(id, &Type::optional(inner.clone()), inner);
        }
        inner.clone()
    }

    fn map(&mut self, entries: &[MapEntry]) -> Type {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            let found = self.check(entry.key);
            key = Some(self.join(key, found));
            let found = self.element(entry.value, entry.optional);
            value = Some(self.join(value, found));
        }
        match (key, value) {
            (Some(key), Some(value)) => Type::map(key, value),
            _ => {
                let first = self.mapping.fresh(2);
                Type::map(Type::Param(first), Type::Param(first + 1))
            }
        }
    }

    /// The type of a list's elements so far and one more. Mixed lists are refused later, unless they are the
    /// arguments of `format`.
    fn join(&mut self, known: Option<Type>, found: Type) -> Type {
        let Some(known) = known else { return found };
        if self.mapping.assignable(&known, &found) { most_general(&known, &found).clone() } else { Type::Dyn }
    }

    fn comprehension(&mut self, fold: &Comprehension<'s>) -> Type {
        let range = self.check(fold.range);
        let accu = self.check(fold.init);
        let range = self.mapping.substitute(&range, false);
        let base = self.scope.len();
        self.scope.push((fold.accu_var, accu.clone()));
        let (first, second) = self.iterated(fold, &range);
        self.scope.push((fold.iter_var, first));
        if let Some(name) = fold.iter_var2 {
            self.scope.push((name, second));
        }
        let condition = self.check(fold.condition);
        self.assert(fold.condition, &Type::Bool, &condition);
        let step = self.check(fold.step);
        self.assert(fold.step, &accu, &step);
        self.scope.truncate(base + 1);
        let result = self.check(fold.result);
        self.scope.truncate(base);
        self.mapping.substitute(&result, false)
    }

    /// The types of a fold's variables.
    fn iterated(&mut self, fold: &Comprehension<'s>, range: &Type) -> (Type, Type) {
        if let Type::List(element) = range {
            let element = (**element).clone();
            return if fold.iter_var2.is_some() { (Type::Int, element) } else { (element, Type::Error) };
        }
        if let Type::Map(entry) = range {
            return (**entry).clone();
        }
        if matches!(range, Type::Dyn | Type::Error | Type::Param(_)) {
            self.mapping.assignable(&Type::Dyn, range);
            return (Type::Dyn, Type::Dyn);
        }
        self.report(
            fold.range,
            format!("expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"),
        );
        (Type::Error, Type::Error)
    }

    fn assert(&mut self, id: NodeId, expected: &Type, found: &Type) {
        if !self.mapping.assignable(expected, found) {
            self.mismatch(id, expected, found);
        }
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// Types that have a name to write.
fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::meta(Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "net.IP" => Type::Ip,
        "net.CIDR" => Type::Cidr,
        _ => return None,
    })
}

fn undefined_field(field: &str, env: Env) -> String {
    let hint = match field {
        "allowMultipleAllocations" => "; it needs consumable capacity to be enabled",
        _ if env.has_consumable_capacity() => {
            "; a device has driver, attributes, capacity, allowMultipleAllocations"
        }
        _ => "; a device has driver, attributes, capacity",
    };
    format!("undefined field '{field}'{hint}")
}

/// A replacement to suggest, for the most frequent mistakes.
fn hint(function: &Function, types: &[Type]) -> &'static str {
    let compares = matches!(function.name, "_<_" | "_<=_" | "_>_" | "_>=_");
    match types {
        [a, b] if compares && (*a == Type::Quantity || *b == Type::Quantity) => {
            "; compare quantities with isGreaterThan(), isLessThan() or compareTo()"
        }
        [a, b] if compares && (*a == Type::Semver || *b == Type::Semver) => {
            "; compare versions with isGreaterThan(), isLessThan() or compareTo()"
        }
        [Type::Quantity, Type::String] => "; write quantity(\"...\")",
        [Type::Semver, Type::String] => "; write semver(\"...\")",
        _ => "",
    }
}
