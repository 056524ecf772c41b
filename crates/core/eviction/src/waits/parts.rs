//! The part of a rule's condition `EvictionBlocked` that is about one pod: the condition sums up all pods of the rule.

use alloc::vec::Vec;

use crate::block::Block;

/// The reason and the part of the message that are about `pod`, `namespace/name`; `None` if they are about other pods.
#[must_use]
pub fn part_about<'a>(reason: &'a str, message: &'a str, pod: &str) -> Option<(&'a str, &'a str)> {
    let parts = parts(message);
    if parts.is_empty() {
        // It names no pods.
        return Some((reason, message));
    }
    let named = |part: &&(Block, &str)| names(part.1).any(|name| name == pod);
    // Where not all pods are named it may be one of the others.
    let unnamed = |part: &&(Block, &str)| names(part.1).any(|name| name.ends_with(MORE));
    let (why, part) = parts.iter().find(named).or_else(|| parts.iter().find(unnamed))?;
    Some((why.name(), *part))
}

/// The end of the list of names where there are more.
const MORE: &str = " more";

/// The parts of a message, one for each reason.
pub(super) fn parts(message: &str) -> Vec<(Block, &str)> {
    let mut starts: Vec<(usize, Block)> = Vec::new();
    for why in Block::ALL {
        let begins = |at: usize| at == 0 || message[..at].ends_with(". ");
        let of_pods = |rest: &str| {
            let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            digits.len() < rest.len()
                && [" pod not ", " pods not "].iter().any(|words| digits.starts_with(words))
        };
        let found = message.match_indices(why.name()).map(|(at, _)| at).find(|at| {
            let rest = message[at + why.name().len()..].strip_prefix(": ");
            begins(*at) && rest.is_some_and(of_pods)
        });
        starts.extend(found.map(|at| (at, why)));
    }
    starts.sort_unstable();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([message.len()]);
    starts.iter().zip(ends).map(|((at, why), end)| (*why, message[*at..end].trim_end())).collect()
}

/// The pods that a part names, between its first brackets. The last may be followed by how many more there are.
fn names(part: &str) -> impl Iterator<Item = &str> {
    let inside = part.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    inside.split(", ").flat_map(|name| {
        let (first, more) =
            name.split_once(" and ").map_or((name, None), |(first, more)| (first, Some(more)));
        [Some(first), more].into_iter().flatten()
    })
}
