//! Runs a program on a text: all ways side by side, a character at a time.

use alloc::{vec, vec::Vec};

use crate::{
    compile::{Program, Step},
    parse::Place,
    set,
};

/// Ways that are followed, the preferred one first: the step each is at, and where in the text it began.
struct Ways {
    list: Vec<(usize, usize)>,
    /// Steps that a way was put at for this character.
    seen: Vec<bool>,
}

impl Ways {
    fn new(steps: usize) -> Self {
        Self { list: Vec::new(), seen: vec![false; steps] }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.seen.fill(false);
    }
}

/// Start and end of the leftmost match that begins at or after a place. `any` is content with the first end that is found.
pub(crate) fn find(program: &Program, text: &str, from: usize, any: bool) -> Option<(usize, usize)> {
    let (mut now, mut next) = (Ways::new(program.steps.len()), Ways::new(program.steps.len()));
    let mut open = Vec::new();
    let mut found = None;
    let mut at = from;
    loop {
        if found.is_none() {
            follow(program, &mut now, &mut open, (0, at), text, at);
        }
        if now.list.is_empty() && found.is_some() {
            return found;
        }
        let c = text.get(at..).and_then(|rest| rest.chars().next());
        for &(step, start) in &now.list {
            match program.steps.get(step) {
                Some(Step::Match) => {
                    found = Some((start, at));
                    // Ways that are preferred less are given up.
                    break;
                }
                Some(Step::Set(number)) => {
                    let set = program.sets.get(*number).map_or(&[][..], |set| set);
                    if let Some(c) = c
                        && set::contains(set, u32::from(c))
                    {
                        follow(program, &mut next, &mut open, (step + 1, start), text, at + c.len_utf8());
                    }
                }
                Some(Step::At(_) | Step::Fork(..) | Step::Jump(_)) | None => {}
            }
        }
        if any && found.is_some() {
            return found;
        }
        let Some(c) = c else { return found };
        at += c.len_utf8();
        core::mem::swap(&mut now, &mut next);
        next.clear();
    }
}

/// Adds a way, and all that it leads to without a character, in the order of preference.
fn follow(
    program: &Program,
    ways: &mut Ways,
    open: &mut Vec<usize>,
    (step, start): (usize, usize),
    text: &str,
    at: usize,
) {
    open.push(step);
    while let Some(step) = open.pop() {
        let Some(seen) = ways.seen.get_mut(step) else { continue };
        if core::mem::replace(seen, true) {
            continue;
        }
        match &program.steps[step] {
            Step::Jump(to) => open.push(*to),
            Step::Fork(first, second) => open.extend([*second, *first]),
            Step::At(place) => {
                if is_at(*place, text, at) {
                    open.push(step + 1);
                }
            }
            Step::Set(_) | Step::Match => ways.list.push((step, start)),
        }
    }
}

fn is_at(place: Place, text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    let after = bytes.get(at);
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    match place {
        Place::TextStart => before.is_none(),
        Place::TextEnd => after.is_none(),
        Place::LineStart => before.is_none_or(|byte| *byte == b'\n'),
        Place::LineEnd => after.is_none_or(|byte| *byte == b'\n'),
        Place::WordEdge => is_word(before) != is_word(after),
        Place::NoWordEdge => is_word(before) == is_word(after),
    }
}
