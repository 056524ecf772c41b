//! Macros: calls that stand for folds over lists and maps, for names of values, for presence tests.

use alloc::vec;

use super::{
    ast::{ACCUMULATOR, Comprehension, Kind, Literal, NodeId, Span, op},
    build::{Parsed, Parser},
};

/// The variable of a fold that never runs.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

/// `has(a.b)`.
pub(super) fn has(parser: &mut Parser<'_>, arg: NodeId, span: Span) -> Parsed {
    if let Kind::Select { operand, field, test_only: false } = *parser.kind(arg) {
        return Ok(parser.add(Kind::Select { operand, field, test_only: true }, span));
    }
    Err(parser
        .issue_at(arg, "invalid argument to has() macro: it must be a field selection such as has(a.b)"))
}

/// The expansion of `target.name(args)`, if that is a macro.
pub(super) fn member<'s>(
    parser: &mut Parser<'s>,
    name: &str,
    target: NodeId,
    args: &[NodeId],
    span: Span,
) -> Option<Parsed> {
    let mut expansion = Expansion { parser, target, span };
    Some(match (name, args) {
        ("all", [var, test]) => expansion.fold(var, None, |e| e.all(*test)),
        ("all", [k, v, test]) => expansion.fold(k, Some(v), |e| e.all(*test)),
        ("exists", [var, test]) => expansion.fold(var, None, |e| e.exists(*test)),
        ("exists", [k, v, test]) => expansion.fold(k, Some(v), |e| e.exists(*test)),
        ("exists_one", [var, test]) => expansion.fold(var, None, |e| e.exists_one(*test)),
        ("exists_one" | "existsOne", [k, v, test]) => expansion.fold(k, Some(v), |e| e.exists_one(*test)),
        ("map", [var, made]) => expansion.fold(var, None, |e| e.collect(None, *made)),
        ("map", [var, test, made]) => expansion.fold(var, None, |e| e.collect(Some(*test), *made)),
        ("filter", [var, test]) => expansion.fold(var, None, |e| e.collect(Some(*test), *var)),
        ("transformList", [k, v, made]) => expansion.fold(k, Some(v), |e| e.collect(None, *made)),
        ("transformList", [k, v, test, made]) => {
            expansion.fold(k, Some(v), |e| e.collect(Some(*test), *made))
        }
        ("transformMap", [k, v, made]) => expansion.fold(k, Some(v), |e| e.insert(None, Some(*k), *made)),
        ("transformMap", [k, v, test, made]) => {
            expansion.fold(k, Some(v), |e| e.insert(Some(*test), Some(*k), *made))
        }
        ("transformMapEntry", [k, v, made]) => expansion.fold(k, Some(v), |e| e.insert(None, None, *made)),
        ("transformMapEntry", [k, v, test, made]) => {
            expansion.fold(k, Some(v), |e| e.insert(Some(*test), None, *made))
        }
        ("bind", [var, value, body]) if matches!(expansion.parser.kind(target), Kind::Ident("cel")) => {
            expansion.bind(var, *value, *body)
        }
        ("optMap", [var, body]) => expansion.opt_map(var, *body, false),
        ("optFlatMap", [var, body]) => expansion.opt_map(var, *body, true),
        ("sortBy", [var, key]) => expansion.sort_by(var, *key),
        _ => return None,
    })
}

/// The parts of a fold that differ from macro to macro.
struct FoldParts {
    init: NodeId,
    condition: NodeId,
    step: NodeId,
    result: NodeId,
}

struct Expansion<'p, 's> {
    parser: &'p mut Parser<'s>,
    target: NodeId,
    span: Span,
}

impl<'s> Expansion<'_, 's> {
    fn fold(
        &mut self,
        var: &NodeId,
        var2: Option<&NodeId>,
        parts: impl FnOnce(&mut Self) -> FoldParts,
    ) -> Parsed {
        let iter_var = self.variable(*var)?;
        let iter_var2 = var2.map(|id| self.variable(*id)).transpose()?;
        if let (Some(second), Some(id)) = (iter_var2, var2)
            && second == iter_var
        {
            return Err(self.parser.issue_at(*id, "duplicate variable name: the two must differ"));
        }
        let FoldParts { init, condition, step, result } = parts(self);
        let range = self.target;
        let fold = Comprehension {
            range,
            iter_var,
            iter_var2,
            accu_var: ACCUMULATOR,
            init,
            condition,
            step,
            result,
        };
        Ok(self.parser.add(Kind::Comprehension(fold), self.span))
    }

    fn variable(&self, id: NodeId) -> Parsed<&'s str> {
        let Kind::Ident(name) = *self.parser.kind(id) else {
            return Err(self.parser.issue_at(id, "argument must be a simple name"));
        };
        if name == "__result__" {
            return Err(self
                .parser
                .issue_at(id, "iteration variable overwrites accumulator variable: choose another name"));
        }
        Ok(name)
    }

    fn accu(&mut self) -> NodeId {
        self.parser.ident(ACCUMULATOR, self.span)
    }

    fn call(&mut self, function: &'static str, args: alloc::vec::Vec<NodeId>) -> NodeId {
        self.parser.call(function, args, self.span)
    }

    fn literal(&mut self, literal: Literal) -> NodeId {
        self.parser.literal(literal, self.span)
    }

    fn all(&mut self, test: NodeId) -> FoldParts {
        let init = self.literal(Literal::Bool(true));
        let accu = self.accu();
        let condition = self.call(op::NOT_STRICTLY_FALSE, vec![accu]);
        let accu = self.accu();
        let step = self.call(op::AND, vec![accu, test]);
        FoldParts { init, condition, step, result: self.accu() }
    }

    fn exists(&mut self, test: NodeId) -> FoldParts {
        let init = self.literal(Literal::Bool(false));
        let accu = self.accu();
        let not = self.call(op::NOT, vec![accu]);
        let condition = self.call(op::NOT_STRICTLY_FALSE, vec![not]);
        let accu = self.accu();
        let step = self.call(op::OR, vec![accu, test]);
        FoldParts { init, condition, step, result: self.accu() }
    }

    fn exists_one(&mut self, test: NodeId) -> FoldParts {
        let init = self.literal(Literal::Int(0));
        let condition = self.literal(Literal::Bool(true));
        let (accu, one) = (self.accu(), self.literal(Literal::Int(1)));
        let more = self.call(op::ADD, vec![accu, one]);
        let accu = self.accu();
        let step = self.call(op::CONDITIONAL, vec![test, more, accu]);
        let (accu, one) = (self.accu(), self.literal(Literal::Int(1)));
        FoldParts { init, condition, step, result: self.call(op::EQUALS, vec![accu, one]) }
    }

    fn collect(&mut self, test: Option<NodeId>, made: NodeId) -> FoldParts {
        let init = self.parser.add(Kind::List(vec![]), self.span);
        let list = self.parser.add(Kind::List(vec![(made, false)]), self.span);
        let accu = self.accu();
        let step = self.call(op::ADD, vec![accu, list]);
        self.guarded(init, test, step)
    }

    fn insert(&mut self, test: Option<NodeId>, key: Option<NodeId>, made: NodeId) -> FoldParts {
        let init = self.parser.add(Kind::Map(vec![]), self.span);
        let mut args = vec![self.accu()];
        if let Some(key) = key
            && let Kind::Ident(name) = *self.parser.kind(key)
        {
            args.push(self.parser.ident(name, self.span));
        }
        args.push(made);
        let step = self.call(op::MAP_INSERT, args);
        self.guarded(init, test, step)
    }

    /// A step that is only taken where `test` holds.
    fn guarded(&mut self, init: NodeId, test: Option<NodeId>, step: NodeId) -> FoldParts {
        let condition = self.literal(Literal::Bool(true));
        let step = match test {
            None => step,
            Some(test) => {
                let accu = self.accu();
                self.call(op::CONDITIONAL, vec![test, step, accu])
            }
        };
        FoldParts { init, condition, step, result: self.accu() }
    }

    fn named(&mut self, name: &'s str, init: NodeId, result: NodeId) -> NodeId {
        let range = self.parser.add(Kind::List(vec![]), self.span);
        let condition = self.literal(Literal::Bool(false));
        let step = self.parser.ident(name, self.span);
        let bind = Comprehension {
            range,
            iter_var: UNUSED,
            iter_var2: None,
            accu_var: name,
            init,
            condition,
            step,
            result,
        };
        self.parser.add(Kind::Comprehension(bind), self.span)
    }

    fn bind(&mut self, var: &NodeId, value: NodeId, body: NodeId) -> Parsed {
        let name = self.variable(*var)?;
        Ok(self.named(name, value, body))
    }

    fn opt_map(&mut self, var: &NodeId, body: NodeId, flat: bool) -> Parsed {
        let name = self.variable(*var)?;
        let target = Some(self.target);
        let span = self.span;
        let member = |function| Kind::Call { function, target, args: vec![] };
        let present = self.parser.add(member("hasValue"), span);
        let value = self.parser.add(member("value"), span);
        let named = self.named(name, value, body);
        let some = if flat { named } else { self.call("optional.of", vec![named]) };
        let none = self.call("optional.none", vec![]);
        Ok(self.call(op::CONDITIONAL, vec![present, some, none]))
    }

    fn sort_by(&mut self, var: &NodeId, key: NodeId) -> Parsed {
        let input = self.target;
        let place = self.span;
        self.target = self.parser.ident(SORT_INPUT, place);
        let keys = self.fold(var, None, |e| e.collect(None, key))?;
        let list = self.parser.ident(SORT_INPUT, place);
        let sorted = Kind::Call { function: op::SORT_BY_KEYS, target: Some(list), args: vec![keys] };
        let sorted = self.parser.add(sorted, place);
        Ok(self.named(SORT_INPUT, input, sorted))
    }
}
