//! From a pattern to a program of small steps.

use alloc::vec::Vec;

use crate::{
    parse::{Node, Place},
    set::Set,
};

/// A step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A character of a set, then the next step.
    Set(usize),
    /// A condition, then the next step.
    At(Place),
    /// Both, the first preferred.
    Fork(usize, usize),
    Jump(usize),
    Match,
}

/// A compiled pattern.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) sets: Vec<Set>,
    bytes: usize,
    bytes_max: usize,
}

/// The program; `None`: it takes more bytes.
pub(crate) fn compile(node: &Node, bytes_max: usize) -> Option<Program> {
    let mut program = Program { bytes_max, ..Program::default() };
    program.node(node)?;
    program.step(Step::Match)?;
    Some(program)
}

/// Whether a part can match nothing.
fn is_optional(node: &Node) -> bool {
    match node {
        Node::Set(_) => false,
        Node::At(_) => true,
        Node::All(parts) => parts.iter().all(is_optional),
        Node::Any(branches) => branches.iter().any(is_optional),
        Node::Repeat { node, least, most, .. } => *least == 0 || *most == Some(0) || is_optional(node),
    }
}

impl Program {
    fn step(&mut self, step: Step) -> Option<usize> {
        self.grow(size_of::<Step>())?;
        self.steps.push(step);
        Some(self.steps.len() - 1)
    }

    fn grow(&mut self, bytes: usize) -> Option<()> {
        self.bytes += bytes;
        (self.bytes <= self.bytes_max).then_some(())
    }

    fn set(&mut self, set: &Set) -> Option<usize> {
        // Parts that are repeated share their sets.
        if let Some(at) = self.sets.iter().rposition(|known| known == set) {
            return Some(at);
        }
        self.grow(size_of_val(set.as_slice()) + size_of::<Set>())?;
        self.sets.push(set.clone());
        Some(self.sets.len() - 1)
    }

    /// Sends a fork on: to the step that comes next, where it does not go to `then`.
    fn fork(&mut self, at: usize, then: usize, greedy: bool) {
        let next = self.steps.len();
        self.steps[at] = if greedy { Step::Fork(then, next) } else { Step::Fork(next, then) };
    }

    fn node(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::Set(set) => {
                let at = self.set(set)?;
                self.step(Step::Set(at)).map(drop)
            }
            Node::At(place) => self.step(Step::At(*place)).map(drop),
            Node::All(parts) => parts.iter().try_for_each(|part| self.node(part)),
            Node::Any(branches) => self.branches(branches),
            Node::Repeat { node, least, most: None, greedy } => self.at_least(node, *least, *greedy),
            Node::Repeat { node, least, most: Some(most), greedy } => {
                (0..*least).try_for_each(|_| self.node(node))?;
                let mut forks = Vec::new();
                for _ in *least..*most {
                    forks.push(self.step(Step::Match)?);
                    self.node(node)?;
                }
                forks.into_iter().for_each(|at| self.fork(at, at + 1, *greedy));
                Some(())
            }
        }
    }

    fn branches(&mut self, branches: &[Node]) -> Option<()> {
        let mut ends = Vec::new();
        for (number, branch) in branches.iter().enumerate() {
            if number + 1 == branches.len() {
                self.node(branch)?;
                break;
            }
            let fork = self.step(Step::Match)?;
            self.node(branch)?;
            ends.push(self.step(Step::Match)?);
            self.fork(fork, fork + 1, true);
        }
        let next = self.steps.len();
        ends.into_iter().for_each(|at| self.steps[at] = Step::Jump(next));
        Some(())
    }

    fn at_least(&mut self, node: &Node, least: u32, greedy: bool) -> Option<()> {
        (1..least).try_for_each(|_| self.node(node))?;
        // A part that can match nothing is tried once before it is left out, or the order of preference would be another.
        if least == 0 && !is_optional(node) {
            let fork = self.step(Step::Match)?;
            self.node(node)?;
            self.step(Step::Jump(fork))?;
            self.fork(fork, fork + 1, greedy);
            return Some(());
        }
        let skip = if least == 0 { Some(self.step(Step::Match)?) } else { None };
        let start = self.steps.len();
        self.node(node)?;
        let fork = self.step(Step::Match)?;
        self.fork(fork, start, greedy);
        if let Some(skip) = skip {
            self.fork(skip, skip + 1, greedy);
        }
        Some(())
    }
}
