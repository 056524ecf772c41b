//! The search: depth first, first solution wins, in Kubernetes' order.
//!
//! An explicit stack of frames takes the place of recursion, so that no claim is too deep for it. Until the first
//! dead end devices are looked at one by one, as they come. Then [`crate::prune`] counts what there is; from there
//! on branches that cannot succeed are not entered, which changes how long it takes and never what is found.

use alloc::{boxed::Box, vec::Vec};

use lazaret_invariant::invariant;

use crate::{
    RESULTS_MAX,
    error::{AllocateError, ErrorKind},
    meter::{STEP_UNITS, units},
    prune::{Pruning, StateKey},
    state::State,
};

/// How the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Found,
    Nothing,
    /// Out of steps.
    Exhausted,
}

/// Which device of which ask is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchPosition {
    pub(crate) claim: usize,
    pub(crate) request: usize,
    pub(crate) ask: usize,
    pub(crate) nth: i64,
}

enum Frame {
    /// Beyond it is the next claim.
    ClaimEnd,
    /// The alternatives of a request.
    Alternatives { claim: usize, request: usize, next: usize, all_too_many: bool },
    /// A device is being tried for a spot; kinds of device that failed there already.
    Device { spot: SearchPosition, slot: usize, failed: Vec<u32> },
    /// The one device of all that is next.
    All,
    /// A failure from here is a failure of this state.
    Remember(Box<StateKey>),
}

enum SearchStep {
    Request { claim: usize, request: usize },
    Spot { spot: SearchPosition, start: usize },
    Next { spot: SearchPosition, start: usize, failed: Vec<u32> },
    Back(Failure),
    Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Plain,
    /// With what was chosen so far the claim would get more devices than it can hold.
    TooMany,
}

/// One search on one node.
pub(crate) struct Search<'a, 's> {
    pub(crate) state: State<'a, 's>,
    /// The ask chosen for each request, by claim.
    pub(crate) chosen: Vec<Vec<usize>>,
    pub(crate) pruning: Pruning,
    pub(crate) steps: u64,
    frames: Vec<Frame>,
    budget: u64,
}

impl<'a, 's> Search<'a, 's> {
    /// A search that gives up after `budget` steps. `literal`: as Kubernetes does it, step for step.
    pub(crate) fn new(state: State<'a, 's>, budget: u64, literal: bool) -> Self {
        let claims = state.plan.claims.iter();
        let chosen =
            claims.map(|claim| claim.requests.iter().map(|request| request.asks.start).collect()).collect();
        let pruning = if literal { Pruning::Never } else { Pruning::NotYet };
        Self { state, chosen, pruning, steps: 0, frames: Vec::new(), budget }
    }

    pub(crate) fn run(&mut self) -> Result<Ending, AllocateError> {
        let mut next = SearchStep::Request { claim: 0, request: 0 };
        loop {
            if self.steps > self.budget {
                return Ok(Ending::Exhausted);
            }
            if self.state.meter().is_empty() {
                return Err(AllocateError::out_of_work());
            }
            self.state.meter().spend(STEP_UNITS);
            next = match next {
                SearchStep::Request { claim, request } => self.enter_request(claim, request),
                SearchStep::Spot { spot, start } => self.enter_spot(spot, start)?,
                SearchStep::Next { spot, start, failed } => self.next_device(spot, start, failed)?,
                SearchStep::Found => return Ok(Ending::Found),
                SearchStep::Back(failure) => match self.frames.pop() {
                    Some(frame) => self.back(frame, failure),
                    None => return Ok(Ending::Nothing),
                },
            }
        }
    }

    fn enter_request(&mut self, claim: usize, request: usize) -> SearchStep {
        self.steps += 1;
        // Every claim is served.
        let Some(plan) = self.state.plan.claims.get(claim) else { return SearchStep::Found };
        let Some(alternatives) = plan.requests.get(request) else {
            self.frames.push(Frame::ClaimEnd);
            return SearchStep::Request { claim: claim + 1, request: 0 };
        };
        if let Pruning::On(analysis) = &self.pruning {
            match analysis.recall(&self.state, claim, request) {
                Ok(memo) => self.frames.push(Frame::Remember(Box::new(memo))),
                Err(_known_to_fail) => return SearchStep::Back(Failure::Plain),
            }
        }
        if alternatives.is_list {
            let next = alternatives.asks.start;
            self.alternative(claim, request, next, true)
        } else {
            let ask = alternatives.asks.start;
            SearchStep::Spot { spot: SearchPosition { claim, request, ask, nth: 0 }, start: 0 }
        }
    }

    fn alternative(&mut self, claim: usize, request: usize, ask: usize, all_too_many: bool) -> SearchStep {
        if ask >= self.state.plan.claims[claim].requests[request].asks.end {
            return SearchStep::Back(if all_too_many { Failure::TooMany } else { Failure::Plain });
        }
        self.steps += 1;
        self.chosen[claim][request] = ask;
        self.frames.push(Frame::Alternatives { claim, request, next: ask + 1, all_too_many });
        SearchStep::Spot { spot: SearchPosition { claim, request, ask, nth: 0 }, start: 0 }
    }

    fn enter_spot(&mut self, spot: SearchPosition, start: usize) -> Result<SearchStep, AllocateError> {
        if spot.nth > 0 {
            self.steps += 1;
        }
        let wanted = &self.state.wanted[spot.ask];
        if wanted.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(SearchStep::Back(Failure::Plain));
        }
        if spot.nth >= wanted.count {
            return Ok(SearchStep::Request { claim: spot.claim, request: spot.request + 1 });
        }
        if wanted.count - spot.nth > RESULTS_MAX - self.state.picked[spot.claim] {
            return Ok(SearchStep::Back(Failure::TooMany));
        }
        if let Some(all) = &wanted.all {
            let slot = usize::try_from(spot.nth).ok().and_then(|nth| all.get(nth)).copied();
            let Some(slot) = invariant!(slot, "all devices that are wanted are listed") else {
                return Ok(SearchStep::Back(Failure::Plain));
            };
            if self.state.take(spot, slot, true)?.is_err() {
                return Ok(SearchStep::Back(Failure::Plain));
            }
            self.frames.push(Frame::All);
            return Ok(SearchStep::Spot { spot: SearchPosition { nth: spot.nth + 1, ..spot }, start: 0 });
        }
        Ok(SearchStep::Next { spot, start, failed: Vec::new() })
    }

    /// Tries devices from `start` on, up to one that can be taken.
    fn next_device(
        &mut self,
        spot: SearchPosition,
        start: usize,
        failed: Vec<u32>,
    ) -> Result<SearchStep, AllocateError> {
        if let Pruning::On(analysis) = &mut self.pruning
            && analysis.is_hopeless(&self.state, spot, start)
        {
            return Ok(SearchStep::Back(Failure::Plain));
        }
        let mut start = start;
        while let Some(slot) = self.state.next_free(spot, start) {
            self.state.meter().spend(1 + units(failed.len() / 8));
            start = slot + 1;
            if let Pruning::On(analysis) = &self.pruning
                && (!analysis.is_viable(spot.ask, slot) || failed.contains(&analysis.kind_of(slot)))
            {
                continue;
            }
            if !self.state.is_selectable(spot.ask, slot)? || !self.state.has_capacity(spot.ask, slot)? {
                continue;
            }
            if self.state.take(spot, slot, false)?.is_ok() {
                self.frames.push(Frame::Device { spot, slot, failed });
                return Ok(SearchStep::Spot { spot: SearchPosition { nth: spot.nth + 1, ..spot }, start });
            }
        }
        Ok(SearchStep::Back(Failure::Plain))
    }

    fn back(&mut self, frame: Frame, failure: Failure) -> SearchStep {
        match frame {
            Frame::ClaimEnd => SearchStep::Back(Failure::Plain),
            Frame::Alternatives { claim, request, next, all_too_many } => {
                self.alternative(claim, request, next, all_too_many && failure == Failure::TooMany)
            }
            Frame::All => {
                self.state.give_back();
                SearchStep::Back(failure)
            }
            Frame::Device { spot, slot, mut failed } => {
                self.state.give_back();
                if failure == Failure::TooMany {
                    return SearchStep::Back(failure);
                }
                if matches!(self.pruning, Pruning::NotYet) {
                    self.pruning = Pruning::of(&mut self.state);
                }
                if let Pruning::On(analysis) = &self.pruning {
                    failed.push(analysis.kind_of(slot));
                }
                SearchStep::Next { spot, start: slot + 1, failed }
            }
            Frame::Remember(memo) => {
                if let (Pruning::On(analysis), Failure::Plain) = (&mut self.pruning, failure) {
                    analysis.remember(*memo);
                }
                SearchStep::Back(failure)
            }
        }
    }
}

/// Checks that the fewest devices a claim could get are not more than it can hold.
pub(crate) fn check_limits(state: &State<'_, '_>) -> Result<(), AllocateError> {
    for claim in &state.plan.claims {
        let least =
            |asks: core::ops::Range<usize>| asks.map(|ask| state.wanted[ask].count).min().unwrap_or(0);
        let wanted =
            claim.requests.iter().fold(0_i64, |sum, request| sum.saturating_add(least(request.asks.clone())));
        if wanted > RESULTS_MAX {
            let claim = claim.claim.key.clone();
            return Err(AllocateError::fatal(ErrorKind::TooManyDevices { claim, wanted }));
        }
    }
    Ok(())
}
