//! Each of a few numbers once.

use alloc::vec::Vec;

/// Up to this number, all are compared with each other; more are sorted.
const FEW: usize = 8;

/// Visits each number once. Almost always there is one, and there is nothing to compare.
pub(crate) fn for_each_distinct(numbers: impl Iterator<Item = u32> + Clone, mut visit: impl FnMut(u32)) {
    if numbers.size_hint().1.is_some_and(|most| most <= FEW) {
        for (place, number) in numbers.clone().enumerate() {
            if numbers.clone().take(place).all(|earlier| earlier != number) {
                visit(number);
            }
        }
    } else {
        let mut sorted: Vec<u32> = numbers.collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.into_iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many() {
        for many in [&[][..], &[7], &[3, 3], &[5, 1, 5, 2, 1], &[9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 1]] {
            let mut visited = Vec::new();
            for_each_distinct(many.iter().copied(), |number| visited.push(number));
            visited.sort_unstable();
            let mut expected = many.to_vec();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(visited, expected);
        }
    }
}
