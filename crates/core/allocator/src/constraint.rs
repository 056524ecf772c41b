//! Constraints: attributes whose values the devices of a claim must share, or must not.

use alloc::vec::Vec;

use crate::values::Values;

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Match,
    Distinct,
}

/// The devices taken so far, as one constraint sees them. Adding and removing is strictly last in, first out.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    rule: Rule,
    /// Match: what all up to here have in common. Distinct: what each has.
    stack: Vec<Values>,
}

impl Taken {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { rule, stack: Vec::new() }
    }

    /// Takes a device with these values, if that may be.
    pub(crate) fn add(&mut self, values: &Values) -> bool {
        if *values == Values::Missing {
            return false;
        }
        let Some(last) = self.stack.last() else {
            self.stack.push(values.clone());
            return true;
        };
        match self.rule {
            Rule::Match => match last.intersection(values) {
                Some(common) => self.stack.push(common),
                None => return false,
            },
            Rule::Distinct => {
                if *values == Values::Odd || self.stack.iter().any(|taken| taken.meets(values)) {
                    return false;
                }
                self.stack.push(values.clone());
            }
        }
        true
    }

    /// Gives the last device back.
    pub(crate) fn remove(&mut self) {
        self.stack.pop();
    }

    /// The values that a further device must share; `None` when nothing is taken yet.
    pub(crate) fn common(&self) -> Option<&Values> {
        self.stack.last()
    }

    /// The values of each device taken.
    pub(crate) fn each(&self) -> &[Values] {
        &self.stack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(ids: &[u32]) -> Values {
        Values::Many(ids.into())
    }

    #[test]
    fn matching_narrows_and_widens_again() {
        let mut taken = Taken::new(Rule::Match);
        assert!(taken.add(&many(&[1, 2, 3])) && taken.add(&many(&[2, 3])) && taken.add(&Values::One(3)));
        assert!(!taken.add(&Values::One(2)));
        taken.remove();
        assert!(taken.add(&Values::One(2)));
    }

    #[test]
    fn distinct_is_pairwise() {
        let mut taken = Taken::new(Rule::Distinct);
        assert!(taken.add(&many(&[1, 2])) && taken.add(&Values::One(3)));
        assert!(!taken.add(&many(&[3, 4])) && !taken.add(&Values::Odd));
        taken.remove();
        assert!(taken.add(&many(&[3, 4])));
    }

    #[test]
    fn an_odd_value_is_good_for_the_first_device_alone() {
        for rule in [Rule::Match, Rule::Distinct] {
            let mut taken = Taken::new(rule);
            assert!(taken.add(&Values::Odd) && !taken.add(&Values::Odd));
            assert_eq!(taken.add(&Values::One(1)), rule == Rule::Distinct);
            assert!(!taken.add(&Values::Missing));
        }
    }
}
