//! The nearest names to one that does not exist.

/// How many near misses are named.
const NEAR_MAX: usize = 3;

/// The names nearest to `wanted` by the number of characters to change, if they are near at all.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    // A third of the characters wrong is no slip any more.
    let far = wanted.chars().count() / 3 + 1;
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= far)
        .map(|name| (distance(wanted, name), name))
        .filter(|(distance, _)| *distance <= far)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
}

/// How many characters must be put in, left out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, changes) in [("kitten", "sitting", 3), ("", "abc", 3), ("gpu-0", "gpu-0", 0)] {
            assert_eq!(distance(one, other), changes);
        }
        assert_eq!(nearest("gpu-7", ["gpu-0", "nic-port-1"].into_iter()), ["gpu-0"]);
    }
}
