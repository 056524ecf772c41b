//! Expressions are forgotten when there are too many: those first that were not used for the longest time.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::expressions::{Chain, Expressions};

/// Beyond this many expressions or chains of them, those are forgotten that were not used lately.
pub(crate) const EXPRESSIONS_MAX: usize = 4_096;

/// Beyond this many in use by one pod, everything is forgotten and learnt anew.
const IN_USE_MAX: usize = 1 << 16;

impl Expressions {
    /// Makes room if there are too many expressions or chains. Entries that the last searches used stay.
    pub(crate) fn make_room(&mut self) {
        if self.expressions.len().max(self.chains.len()) <= EXPRESSIONS_MAX.max(self.kept.saturating_mul(2)) {
            return;
        }
        let Some(oldest) = self.oldest_kept() else {
            self.forget();
            self.kept = 0;
            return;
        };
        let mut new_ids: HashMap<u32, u32, FxBuildHasher> = HashMap::default();
        let all = core::mem::take(&mut self.expressions);
        for (id, expression) in (0..).zip(all) {
            if expression.used >= oldest {
                new_ids.insert(id, u32::try_from(self.expressions.len()).unwrap_or(u32::MAX));
                self.expressions.push(expression);
            }
        }
        self.ids.retain(|_, id| {
            new_ids.get(id).is_some_and(|new| {
                *id = *new;
                true
            })
        });
        let mut new_chains: HashMap<Chain, Chain, FxBuildHasher> = HashMap::default();
        let chains = core::mem::take(&mut self.chains);
        self.chain_ids.clear();
        for (at, chain) in (0..).zip(chains) {
            let renamed =
                chain.iter().map(|id| if *id == u32::MAX { Some(*id) } else { new_ids.get(id).copied() });
            let Some(renamed) = renamed.collect::<Option<alloc::boxed::Box<[u32]>>>() else { continue };
            let new = Chain(u32::try_from(self.chains.len()).unwrap_or(u32::MAX));
            new_chains.insert(Chain(at), new);
            self.chain_ids.insert(renamed.clone(), new);
            self.chains.push(renamed);
        }
        let answers = core::mem::take(&mut self.answers);
        let kept = answers
            .into_iter()
            .filter_map(|((chain, shape), verdict)| Some(((*new_chains.get(&chain)?, shape), verdict)));
        self.answers = kept.collect();
        let derived = core::mem::take(&mut self.derived);
        let kept =
            derived.into_iter().filter_map(|((id, shape), value)| Some(((*new_ids.get(&id)?, shape), value)));
        self.derived = kept.collect();
        self.kept = self.expressions.len().max(self.chains.len());
    }

    /// The oldest use by which an expression stays: as many stay as are half of what there is room for, and all of the last search. `None`:
    /// those are too many.
    fn oldest_kept(&self) -> Option<u64> {
        let mut uses: alloc::vec::Vec<u64> = self.expressions.iter().map(|known| known.used).collect();
        uses.sort_unstable_by_key(|used| core::cmp::Reverse(*used));
        let last = *uses.first()?;
        let of_last = uses.iter().take_while(|used| **used == last).count();
        let half = uses.get(EXPRESSIONS_MAX / 2).map_or(0, |used| used + 1);
        (of_last <= IN_USE_MAX && self.chains.len() <= IN_USE_MAX).then_some(half.min(last))
    }
}
