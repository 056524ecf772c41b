//! Which agent goes first while there is not enough of the machine for all.

/// How much an agent's effects matter at once. While many effects of a higher precedence are in flight, an agent has few of its own in flight, but always
/// some: no agent waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precedence {
    /// Pods leave a device that is bad.
    Urgent,
    /// Pods come into being, and get a place.
    Usual,
    /// Effects that follow from the others and can follow later.
    Patient,
}

/// Effects that an agent may have in flight while others go first.
pub const YIELDING_MAX: usize = 2;

/// As many effects of a higher precedence are a reason to yield. Fewer there may be for hours, of a rule with a pace for instance, and there
/// is room beside them.
pub const CROWD: usize = 4;

/// A [patient](Precedence::Patient) agent lets news gather for this long while others go first: of an object that changes several times meanwhile it
/// hears once.
pub const PATIENCE_MS: i64 = 100;

/// How many effects of one process are in flight, by precedence.
pub type InFlight = [usize; 3];

impl Precedence {
    /// How many may be in flight now of the `room` that there is.
    #[must_use]
    pub fn room(self, in_flight: InFlight, room: usize) -> usize {
        if self.others_go_before(in_flight) { room.min(YIELDING_MAX) } else { room }
    }

    /// Whether many effects of a higher precedence are in flight.
    #[must_use]
    pub fn others_go_before(self, in_flight: InFlight) -> bool {
        in_flight[..self as usize].iter().sum::<usize>() >= CROWD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_precedence_yields_and_never_wholly() {
        let rooms = |in_flight: InFlight| {
            [Precedence::Urgent, Precedence::Usual, Precedence::Patient].map(|one| one.room(in_flight, 100))
        };
        assert_eq!(rooms([0, 0, 0]), [100, 100, 100]);
        assert_eq!(rooms([0, CROWD, 0]), [100, 100, YIELDING_MAX]);
        assert_eq!(rooms([0, CROWD - 1, 9]), [100, 100, 100], "a few are no reason");
        assert_eq!(rooms([1, CROWD - 1, 0]), [100, 100, YIELDING_MAX], "together they are");
        assert_eq!(rooms([CROWD, 0, 0]), [100, YIELDING_MAX, YIELDING_MAX]);
        assert_eq!(Precedence::Patient.room([CROWD, 0, 0], 1), 1);
    }
}
