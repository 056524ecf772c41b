//! Effects without an answer.

use lazaret_machine::Outcome;

/// The end of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectEnd {
    /// It was answered.
    Answered(Outcome),
    /// It was not sent: the process does not lead.
    Withheld,
    /// Its task panicked, before or after the write.
    Panicked,
    /// It was given up before the answer came. The write may still arrive.
    Unanswered,
}

impl EffectEnd {
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
            (EffectEnd::Answered(Outcome::Done), Outcome::Done),
            (EffectEnd::Answered(Outcome::Held), Outcome::Held),
            (EffectEnd::Withheld, Outcome::RetryLater),
            (EffectEnd::Panicked, Outcome::Unknown),
            (EffectEnd::Unanswered, Outcome::Unknown),
        ];
        for (end, outcome) in table {
            assert_eq!(end.outcome(), outcome, "{end:?}");
        }
    }
}
