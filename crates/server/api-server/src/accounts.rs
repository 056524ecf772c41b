//! Resources held for users, counted in and out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lazaret_flow::{ConnectionId, Full, Ledger, LedgerLimits, Level};

/// Ledgers of one thing, one for each level: no level takes what is another's.
#[derive(Debug)]
pub(crate) struct Accounts {
    levels: Vec<Mutex<Ledger<Arc<str>>>>,
}

impl Accounts {
    pub(crate) fn new(limits: impl Fn(Level) -> LedgerLimits) -> Arc<Self> {
        let levels = Level::ALL.into_iter().map(|level| Mutex::new(Ledger::new(limits(level)))).collect();
        Arc::new(Self { levels })
    }

    fn ledger(&self, level: Level) -> MutexGuard<'_, Ledger<Arc<str>>> {
        self.levels[level.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an amount on the account of `holder`.
    pub(crate) fn take(self: &Arc<Self>, holder: &AccountKey, amount: usize) -> Result<HeldAmount, Full> {
        let mut held = HeldAmount { accounts: Arc::clone(self), holder: holder.clone(), amount: 0 };
        held.grow(amount)?;
        Ok(held)
    }

    #[cfg(test)]
    pub(crate) fn total(&self, level: Level) -> u64 {
        self.ledger(level).total()
    }
}

/// On whose account.
#[derive(Clone, Debug)]
pub(crate) struct AccountKey {
    pub(crate) level: Level,
    pub(crate) user: Arc<str>,
    pub(crate) connection: ConnectionId,
}

/// An amount that is released when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldAmount {
    accounts: Arc<Accounts>,
    holder: AccountKey,
    amount: usize,
}

impl HeldAmount {
    /// Takes more.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Full> {
        let AccountKey { level, user, connection } = &self.holder;
        self.accounts.ledger(*level).take(user, connection.0, amount as u64)?;
        self.amount += amount;
        Ok(())
    }

    /// Keeps `amount` and releases the rest.
    pub(crate) fn shrink_to(&mut self, amount: usize) {
        let rest = self.amount.saturating_sub(amount);
        if rest > 0 {
            let AccountKey { level, user, connection } = &self.holder;
            self.accounts.ledger(*level).give_back(user, connection.0, rest as u64);
            self.amount -= rest;
        }
    }
}

impl Drop for HeldAmount {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
