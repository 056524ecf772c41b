//! The next steps by virtual time, first come first served within a millisecond.

/// A list of (time, sequence), the next one at its end: most steps are planned for soon, and move few others. The steps lie beside it: they are large.
#[derive(Debug)]
pub struct Queue<T> {
    order: Vec<Entry>,
    planned: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

/// Time and sequence in one number, which is all that order is decided by, and where the thing lies.
type Entry = (u64, u32);

/// Virtual time fits in what the sequence leaves, for as long as any world lasts.
const SEQUENCE_BITS: u32 = 28;

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { order: Vec::new(), planned: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<T> Queue<T> {
    /// `what` is to happen at `at`, after everything already planned for that instant.
    pub fn push(&mut self, at: u64, what: T) {
        self.sequence += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.planned.push(None);
            u32::try_from(self.planned.len() - 1).unwrap_or(u32::MAX)
        });
        self.planned[place as usize] = Some(what);
        let key = at << SEQUENCE_BITS | self.sequence;
        let later = self.order.partition_point(|(known, _)| *known > key);
        self.order.insert(later, (key, place));
    }

    /// The next thing and its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let (key, place) = self.order.pop()?;
        self.free.push(place);
        self.planned[place as usize].take().map(|what| (key >> SEQUENCE_BITS, what))
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    #[test]
    fn time_then_order_of_arrival() {
        let mut queue = Queue::default();
        queue.push(5, "b");
        queue.push(1, "a");
        queue.push(5, "c");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, "a"), (5, "b"), (5, "c")]);
    }
}
