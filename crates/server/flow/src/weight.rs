//! How many seats a request takes.

/// Objects of a list per seat, as in Kubernetes.
const OBJECTS_PER_SEAT: usize = 100;
/// Bytes of a body per seat: reading and merging it takes as long as a list of 100 objects.
const BODY_BYTES_PER_SEAT: usize = 64 << 10;
/// No request takes more seats, as in Kubernetes. Each level guarantees as many, so that every request fits some day.
pub const LIST_SEATS_MAX: u32 = 10;

/// Seats of a list that looks at `objects` objects.
#[must_use]
pub fn seats_of_list(objects: usize) -> u32 {
    seats(objects, OBJECTS_PER_SEAT)
}

/// Seats of a request with a body of this length.
#[must_use]
pub fn seats_of_body(bytes: usize) -> u32 {
    seats(bytes, BODY_BYTES_PER_SEAT)
}

fn seats(amount: usize, per_seat: usize) -> u32 {
    u32::try_from(amount.div_ceil(per_seat)).unwrap_or(u32::MAX).clamp(1, LIST_SEATS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_take_more_seats_up_to_a_limit() {
        for (objects, seats) in [(0, 1), (1, 1), (100, 1), (101, 2), (1_000, 10), (usize::MAX, 10)] {
            assert_eq!(seats_of_list(objects), seats, "{objects}");
        }
        for (bytes, seats) in [(0, 1), (64 << 10, 1), ((64 << 10) + 1, 2), (3 << 20, 10)] {
            assert_eq!(seats_of_body(bytes), seats, "{bytes}");
        }
    }
}
