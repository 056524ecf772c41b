//! Effects without an answer.

use lazaret_machine::Outcome;

/// The end of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was answered.
    Answered(Outcome),
    /// It was not sent: the process does not lead.
    Withheld,
    /// Its task panicked, before or after the write.
    Panicked,
    /// It was given up before the answer came. The write may still arrive.
    Unanswered,
}

impl Fate {
    /// The outcome that the agent gets.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Answered(outcome) => outcome,
            Self::Withheld => Outcome::RetryLater,
            Self::Panicked | Self::Unanswered => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_effect_that_was_never_sent_is_known_not_to_be_done() {
        let table = [
            (Fate::Answered(Outcome::Done), Outcome::Done),
            (Fate::Answered(Outcome::Held), Outcome::Held),
            (Fate::Withheld, Outcome::RetryLater),
            (Fate::Panicked, Outcome::Unknown),
            (Fate::Unanswered, Outcome::Unknown),
        ];
        for (fate, outcome) in table {
            assert_eq!(fate.outcome(), outcome, "{fate:?}");
        }
    }
}
