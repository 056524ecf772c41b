//! One node, some claims: can they be had together?

use alloc::{sync::Arc, vec::Vec};

use lazaret_fleet::Snapshot;
use lazaret_model::{Allocation, Node, ResourceClaim, Text};

use crate::{
    BUDGET_STEPS_DEFAULT, Features, Overlay,
    balances::Balances,
    error::{AllocateError, ErrorKind},
    explain,
    expressions::Expressions,
    failed_nodes::FailedNodes,
    full_nodes::FullNodes,
    meter::{NODE_UNITS, units},
    plan::Plan,
    result,
    search::{Ending, Search, check_limits},
    state::State,
    timed::TimedTolerations,
    view::{PoolState, View},
    why::WhyNot,
};

/// The claims to allocate, and the node to allocate them on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The fleet.
    pub snapshot: &'a Arc<Snapshot>,
    /// The node.
    pub node: &'a Node,
    /// The claims of one pod that have nothing yet. They are served together or not at all.
    pub claims: &'a [Arc<ResourceClaim>],
    /// Allocations that are decided but not yet in the snapshot.
    pub in_flight: &'a Overlay,
    /// How to search.
    pub options: &'a Options,
}

/// How to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The search is given up after this number of steps.
    pub budget_steps: u64,
    /// Of suitable devices, prefers those without informational taints, and partitions of devices in use
    /// already. Kubernetes does not.
    pub prefer_healthy: bool,
    /// How tolerations with `tolerationSeconds` count.
    pub timed_tolerations: TimedTolerations,
    /// Say in full why something does not fit.
    pub explain: bool,
    /// Search step for step as Kubernetes does, however long it takes. For comparison.
    pub literal: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_steps: BUDGET_STEPS_DEFAULT,
            prefer_healthy: false,
            timed_tolerations: TimedTolerations::LikeAnyOther,
            explain: true,
            literal: false,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One allocation for each claim, in order.
    Allocated(Vec<Allocation>),
    /// The claims do not fit on this node now.
    DoesNotFit(WhyNot),
    /// It could not be found out.
    Failed(AllocateError),
    /// Not found within the budget; that does not mean that there is nothing.
    BudgetExhausted(WhyNot),
}

/// Answers requests, and remembers what helps with the next.
///
/// Made for one thread; every thread can have its own. Its caches are bounded and only save time.
#[derive(Debug, Default)]
pub struct Allocator {
    pub(crate) features: Features,
    pub(crate) expressions: Expressions,
    pub(crate) full_nodes: FullNodes,
    balances: Balances,
}

impl Allocator {
    /// An allocator that has seen nothing yet.
    #[must_use]
    pub fn new(features: Features) -> Self {
        Self { features, ..Self::default() }
    }

    /// The features it heeds.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Finds devices for all claims on the node. `share_id` gives a new identifier, a lower-case UUID, for each
    /// share of a device that can be shared.
    pub fn allocate(&mut self, request: &Request<'_>, share_id: &mut dyn FnMut() -> Text) -> Answer {
        self.expressions.observe(request.snapshot);
        let plan = match Plan::new(request.snapshot, request.claims, &self.features, &mut self.expressions) {
            Ok(plan) => plan,
            Err(error) if error.is_out_of_work() => {
                return Answer::BudgetExhausted(WhyNot::at(&request.node.name));
            }
            Err(error) => return Answer::Failed(error),
        };
        let answer = self.view(request).and_then(|view| self.attempt(&plan, request, view, None, share_id));
        match answer {
            Err(error) if error.is_out_of_work() => Answer::BudgetExhausted(WhyNot::at(&request.node.name)),
            answer => answer.unwrap_or_else(Answer::Failed),
        }
    }

    /// Sets the number of units that may be spent from now on; `u64::MAX`: any number, as at the beginning. Work that would exceed it is not
    /// begun, and results found until then are remembered. A unit is what a unit of CEL's cost takes.
    pub fn allow(&mut self, units: u64) {
        self.expressions.meter.fill(units);
    }

    /// Takes note of work that was done beside it: of the units that are allowed it takes none.
    pub fn charge(&self, units: u64) {
        self.expressions.meter.charge(units);
    }

    /// Spends units for work that was done beside it.
    pub fn spend(&self, units: u64) {
        self.expressions.meter.spend(units);
    }

    /// All units that were ever spent.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.expressions.meter.spent()
    }

    /// How many answers and expressions were ever learnt: a turn in which that grows has got further.
    #[must_use]
    pub fn learnt(&self) -> u64 {
        self.expressions.meter.learnt()
    }

    /// Whether all units are spent.
    #[must_use]
    pub fn is_out_of_work(&self) -> bool {
        self.expressions.meter.is_empty()
    }

    /// The part of the fleet that the node can reach.
    pub(crate) fn view<'a>(&self, request: &Request<'a>) -> Result<View<'a>, AllocateError> {
        View::new(request.snapshot, request.node, &self.features, request.in_flight)
    }

    /// One node. `failed_nodes`: what is known of nodes on which nothing was found, and what is to be added to it.
    pub(crate) fn attempt<'a>(
        &mut self,
        plan: &Plan<'a>,
        request: &Request<'a>,
        mut view: View<'a>,
        failed_nodes: Option<&mut FailedNodes>,
        share_id: &mut dyn FnMut() -> Text,
    ) -> Result<Answer, AllocateError> {
        if request.options.prefer_healthy {
            view.prefer_healthy();
        }
        let timed = request.options.timed_tolerations;
        if self.features.device_taints && timed.depend_on_time() {
            view.put_timed_last(plan);
        }
        self.expressions.meter.spend(NODE_UNITS + units(view.slots.len()));
        let mut state =
            State::new(plan, &view, &self.features, timed, &mut self.expressions, &mut self.balances)?;
        check_limits(&state)?;
        if let Some(known) = failed_nodes.as_deref().and_then(|failed_nodes| failed_nodes.recall(&mut state))
        {
            return Ok(Answer::DoesNotFit(WhyNot { node: request.node.name.clone(), ..known }));
        }
        let mut search = Search::new(state, request.options.budget_steps, request.options.literal);
        let ending = search.run()?;
        if ending == Ending::Found {
            return result::allocations(&search, share_id).map(Answer::Allocated);
        }
        search.state.give_all_back();
        let why = explain::why_not(&mut search.state, search.steps, request.options.explain);
        if ending == Ending::Exhausted {
            return Ok(Answer::BudgetExhausted(why));
        }
        let invalid = view.pools.iter().find(|pool| matches!(pool.state, PoolState::Invalid(_)));
        if let Some(pool) = invalid {
            return Err(AllocateError::node(ErrorKind::InvalidPools(pool.id.clone())));
        }
        if let Some(failed_nodes) = failed_nodes {
            failed_nodes.remember(&mut search.state, &why);
        }
        Ok(Answer::DoesNotFit(why))
    }
}
