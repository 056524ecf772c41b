//! Resources held for users: bytes in flight, watches. Limited for each connection, for each user and in total.

use alloc::collections::BTreeMap;

/// Limits of a [`Ledger`], in whatever it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// All users together.
    pub total: u64,
    /// One user.
    pub per_user: u64,
    /// One connection.
    pub per_connection: u64,
    /// A user who holds nothing may take this much even if the others have taken everything: no user is locked out for ever.
    pub first_of_user: u64,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// That of the connection.
    Connection,
    /// That of the user.
    User,
    /// That of all together.
    Total,
}

/// Amounts held, by user and connection.
#[derive(Clone, Debug)]
pub struct Ledger<K> {
    limits: LedgerLimits,
    total: u64,
    users: BTreeMap<K, u64>,
    connections: BTreeMap<u64, u64>,
}

impl<K: Ord + Clone> Ledger<K> {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: LedgerLimits) -> Self {
        Self { limits, total: 0, users: BTreeMap::new(), connections: BTreeMap::new() }
    }

    /// The amount held by all users together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The amount held by a user.
    #[must_use]
    pub fn of_user(&self, user: &K) -> u64 {
        self.users.get(user).copied().unwrap_or(0)
    }

    /// Takes an amount.
    ///
    /// # Errors
    /// The limit in the way; nothing is taken then.
    pub fn take(&mut self, user: &K, connection: u64, amount: u64) -> Result<(), Full> {
        if amount == 0 {
            return Ok(());
        }
        let held = self.connections.get(&connection).copied().unwrap_or(0);
        if held.saturating_add(amount) > self.limits.per_connection {
            return Err(Full::Connection);
        }
        let of_user = self.of_user(user);
        if of_user.saturating_add(amount) > self.limits.per_user {
            return Err(Full::User);
        }
        let first = of_user == 0 && amount <= self.limits.first_of_user;
        if !first && self.total.saturating_add(amount) > self.limits.total {
            return Err(Full::Total);
        }
        self.connections.insert(connection, held + amount);
        match self.users.get_mut(user) {
            Some(held) => *held += amount,
            None => {
                self.users.insert(user.clone(), amount);
            }
        }
        self.total += amount;
        Ok(())
    }

    /// Gives an amount back that was taken.
    pub fn give_back(&mut self, user: &K, connection: u64, amount: u64) {
        if let Some(held) = self.users.get_mut(user) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                self.users.remove(user);
            }
        }
        if let Some(held) = self.connections.get_mut(&connection) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                self.connections.remove(&connection);
            }
        }
        self.total = self.total.saturating_sub(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const LIMITS: LedgerLimits =
        LedgerLimits { total: 100, per_user: 40, per_connection: 30, first_of_user: 5 };

    #[test]
    fn each_limit_holds_and_what_is_given_back_can_be_taken_again() {
        let mut ledger = Ledger::new(LIMITS);
        assert_eq!(ledger.take(&"a", 1, 30), Ok(()));
        assert_eq!(ledger.take(&"a", 1, 1), Err(Full::Connection));
        assert_eq!(ledger.take(&"a", 2, 11), Err(Full::User));
        assert_eq!(ledger.take(&"a", 2, 10), Ok(()));
        assert_eq!(ledger.take(&"b", 3, 30), Ok(()));
        assert_eq!(ledger.take(&"c", 4, 30), Ok(()));
        assert_eq!(ledger.take(&"b", 5, 1), Err(Full::Total));
        assert_eq!(ledger.take(&"d", 5, 6), Err(Full::Total));
        assert_eq!(ledger.take(&"d", 5, 5), Ok(()), "a user with nothing gets the first");
        assert_eq!(ledger.take(&"d", 5, 1), Err(Full::Total));
        ledger.give_back(&"a", 1, 30);
        assert_eq!(ledger.take(&"d", 5, 1), Ok(()));
        assert_eq!((ledger.total(), ledger.of_user(&"a")), (76, 10));
    }

    proptest! {
        #[test]
        fn no_limit_is_exceeded_and_nothing_stays_behind(
            steps in proptest::collection::vec((0_u8..5, 0_u64..6, 0_u64..40, any::<bool>()), 0..200),
        ) {
            let mut ledger = Ledger::new(LIMITS);
            let mut held: Vec<(u8, u64, u64)> = Vec::new();
            for (user, connection, amount, give) in steps {
                if give && !held.is_empty() {
                    let (user, connection, amount) = held.swap_remove(usize::from(user) % held.len());
                    ledger.give_back(&user, connection, amount);
                } else if ledger.take(&user, connection, amount).is_ok() {
                    held.push((user, connection, amount));
                }
                let sum = |keep: &dyn Fn(&(u8, u64, u64)) -> bool| {
                    held.iter().filter(|one| keep(one)).map(|one| one.2).sum::<u64>()
                };
                prop_assert_eq!(ledger.total(), sum(&|_| true));
                prop_assert!(ledger.total() <= LIMITS.total + 5 * LIMITS.first_of_user);
                for user in 0..5 {
                    prop_assert_eq!(ledger.of_user(&user), sum(&|one| one.0 == user));
                    prop_assert!(ledger.of_user(&user) <= LIMITS.per_user);
                }
                for connection in 0..6 {
                    prop_assert!(sum(&|one| one.1 == connection) <= LIMITS.per_connection);
                }
            }
            for (user, connection, amount) in held {
                ledger.give_back(&user, connection, amount);
            }
            prop_assert_eq!(ledger.total(), 0);
            prop_assert!(ledger.users.is_empty() && ledger.connections.is_empty());
        }
    }
}
