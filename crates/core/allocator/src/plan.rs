//! Claims made ready for the search: checked, flattened, and with everything looked up that is the same on every
//! node.

use alloc::{format, sync::Arc, vec, vec::Vec};
use core::ops::Range;

use lazaret_fleet::{ClassState, Snapshot};
use lazaret_model::{
    AllocationMode, AttrId, ClaimSpec, Constraint, ConstraintKind, DeviceRequest, QualifiedName, Quantity,
    Request, RequestKind, ResourceClaim, Text,
};

use crate::{
    Features,
    constraint::Rule,
    error::{AllocateError, ErrorKind, InRequest},
    expressions::{Chain, Expressions},
};

/// The requests and constraints of a pod's claims, resolved for a search.
pub(crate) struct Plan<'a> {
    pub(crate) claims: Vec<ClaimPlan<'a>>,
    /// All requests and alternatives of all claims.
    pub(crate) asks: Vec<PlannedRequest<'a>>,
    /// Where the values that constraints compare come from.
    pub(crate) columns: Vec<Column<'a>>,
}

pub(crate) struct ClaimPlan<'a> {
    pub(crate) claim: &'a ResourceClaim,
    pub(crate) requests: Vec<RequestPlan>,
    pub(crate) constraints: Vec<ConstraintPlan<'a>>,
}

pub(crate) struct RequestPlan {
    /// Alternatives in [`Plan::asks`]; one if it is no list.
    pub(crate) asks: Range<usize>,
    pub(crate) is_list: bool,
}

/// One request, or one alternative of a request.
pub(crate) struct PlannedRequest<'a> {
    pub(crate) claim: usize,
    /// The request's name.
    pub(crate) name: &'a Text,
    /// The alternative's name.
    pub(crate) alternative: Option<&'a Text>,
    pub(crate) spec: &'a DeviceRequest,
    pub(crate) class: &'a Arc<ClassState>,
    pub(crate) chain: Chain,
    /// `None`: all that match.
    pub(crate) count: Option<i64>,
    pub(crate) admin: bool,
    pub(crate) amounts: &'a [(Text, Quantity)],
    /// The claim's constraints that it is under, with the column of each.
    pub(crate) constraints: Vec<(usize, usize)>,
}

pub(crate) struct ConstraintPlan<'a> {
    pub(crate) rule: Rule,
    pub(crate) attribute: &'a Text,
}

/// Where a constraint's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column<'a> {
    /// An attribute of the device.
    Attribute(AttrId),
    /// An attribute without a domain: of the device's own driver.
    Unqualified(&'a Text),
    /// Computed: name and expression.
    Derived(&'a Text, &'a Text),
}

impl PlannedRequest<'_> {
    /// `r` or `r/s`.
    pub(crate) fn path(&self) -> Text {
        match self.alternative {
            None => self.name.clone(),
            Some(alternative) => format!("{}/{alternative}", self.name).into(),
        }
    }

    pub(crate) fn located(&self, plan: &Plan<'_>) -> InRequest {
        InRequest { claim: plan.claims[self.claim].claim.key.clone(), request: self.path() }
    }
}

impl<'a> Plan<'a> {
    /// Checks claims and looks up what they name.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        claims: &'a [Arc<ResourceClaim>],
        features: &Features,
        expressions: &mut Expressions,
    ) -> Result<Self, AllocateError> {
        let mut plan =
            Self { claims: Vec::with_capacity(claims.len()), asks: Vec::new(), columns: Vec::new() };
        let mut context = Context { snapshot, features, expressions };
        for claim in claims {
            plan.add_claim(claim, &mut context)?;
        }
        Ok(plan)
    }

    /// Whether the search would end at once, without looking at anything, on a node where every device is in use.
    pub(crate) fn needs_a_free_device(&self) -> bool {
        let first = self.claims.iter().find_map(|claim| claim.requests.first());
        self.asks.iter().all(|ask| ask.count.is_some())
            && first.is_some_and(|request| {
                self.asks[request.asks.clone()]
                    .iter()
                    .all(|ask| !ask.admin && ask.count.is_some_and(|count| count > 0))
            })
    }

    fn add_claim(
        &mut self,
        claim: &'a ResourceClaim,
        context: &mut Context<'a, '_>,
    ) -> Result<(), AllocateError> {
        let spec: &'a ClaimSpec = &claim.spec;
        let mut requests = Vec::with_capacity(spec.requests.len());
        let mut constraints = Vec::with_capacity(spec.constraints.len());
        for request in &spec.requests {
            requests.push(self.add_request(claim, request, context)?);
        }
        for (index, constraint) in spec.constraints.iter().enumerate() {
            let (rule, attribute) = match &constraint.kind {
                ConstraintKind::Match(attribute) => (Rule::Match, attribute),
                ConstraintKind::Distinct(attribute) => (Rule::Distinct, attribute),
                ConstraintKind::Unknown => {
                    let claim = claim.key.clone();
                    return Err(AllocateError::fatal(ErrorKind::UnsupportedConstraint { claim, index }));
                }
            };
            for at in requests.iter().flat_map(|request: &RequestPlan| request.asks.clone()) {
                if covers(constraint, self.asks[at].name, self.asks[at].alternative) {
                    let column = column(attribute, self.asks[at].spec, context.snapshot);
                    let column = self.column(column);
                    self.asks[at].constraints.push((index, column));
                }
            }
            constraints.push(ConstraintPlan { rule, attribute });
        }
        self.claims.push(ClaimPlan { claim, requests, constraints });
        Ok(())
    }

    fn add_request(
        &mut self,
        claim: &'a ResourceClaim,
        request: &'a Request,
        context: &mut Context<'a, '_>,
    ) -> Result<RequestPlan, AllocateError> {
        let start = self.asks.len();
        let at = |alternative: Option<&Text>| InRequest {
            claim: claim.key.clone(),
            request: alternative
                .map_or_else(|| request.name.clone(), |name| format!("{}/{name}", request.name).into()),
        };
        let off = |at, gate, what| Err(AllocateError::fatal(ErrorKind::FeatureOff { at, gate, what }));
        let (specs, is_list) = match &request.kind {
            RequestKind::Exactly(spec) => (core::slice::from_ref(spec), false),
            RequestKind::FirstAvailable(list) if !list.is_empty() => (list.as_slice(), true),
            RequestKind::FirstAvailable(_) | RequestKind::Unknown => {
                return Err(AllocateError::fatal(ErrorKind::UnsupportedRequest(at(None))));
            }
        };
        if is_list && !context.features.prioritized_list {
            return off(at(None), "DRAPrioritizedList", "a list of alternatives");
        }
        for spec in specs {
            let alternative = is_list.then_some(&spec.name);
            if spec.capacity.is_some() && !context.features.consumable_capacity {
                return off(at(alternative), "DRAConsumableCapacity", "a request for capacity");
            }
            if !spec.derived_attributes.is_empty() && !context.features.derived_attributes {
                return off(at(alternative), "DRADerivedAttributes", "a derived attribute");
            }
            if !is_list && spec.admin_access.is_some() && !context.features.admin_access {
                return off(at(alternative), "DRAAdminAccess", "admin access");
            }
            let ask = context.ask(self.claims.len(), request, alternative, spec, || at(alternative))?;
            self.asks.push(ask);
        }
        Ok(RequestPlan { asks: start..self.asks.len(), is_list })
    }

    fn column(&mut self, column: Column<'a>) -> usize {
        self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }
}

struct Context<'a, 'e> {
    snapshot: &'a Snapshot,
    features: &'e Features,
    expressions: &'e mut Expressions,
}

impl<'a> Context<'a, '_> {
    fn ask(
        &mut self,
        claim: usize,
        request: &'a Request,
        alternative: Option<&'a Text>,
        spec: &'a DeviceRequest,
        at: impl Fn() -> InRequest,
    ) -> Result<PlannedRequest<'a>, AllocateError> {
        let fatal = |kind| Err(AllocateError::fatal(kind));
        if let Some(index) = spec.selectors.iter().position(Option::is_none) {
            let at = crate::error::Written::Claim(at().claim);
            return fatal(ErrorKind::UnsupportedSelector { at, index });
        }
        if spec.class.is_empty() {
            return fatal(ErrorKind::MissingClass(at()));
        }
        let Some(class) = self.snapshot.class(&spec.class) else {
            return fatal(ErrorKind::UnknownClass { at: at(), class: spec.class.clone() });
        };
        let count = match &spec.mode {
            AllocationMode::Exact(count) => Some(*count),
            AllocationMode::All => None,
            AllocationMode::Unknown(mode) => {
                return fatal(ErrorKind::UnsupportedMode { at: at(), mode: mode.clone() });
            }
        };
        let selectors = class.class.selectors.iter().chain(&spec.selectors);
        let Some(chain) = self.expressions.chain(selectors.map(Option::as_ref)) else {
            return Err(AllocateError::out_of_work());
        };
        Ok(PlannedRequest {
            claim,
            name: &request.name,
            alternative,
            spec,
            class,
            chain,
            count,
            admin: alternative.is_none() && spec.admin_access == Some(true),
            amounts: spec.capacity.as_deref().unwrap_or(&[]),
            constraints: vec![],
        })
    }
}

fn covers(constraint: &Constraint, request: &Text, alternative: Option<&Text>) -> bool {
    let names = &constraint.requests;
    names.is_empty()
        || names.contains(request)
        || alternative.is_some_and(|alternative| {
            names
                .iter()
                .any(|name| name.split_once('/').is_some_and(|(r, s)| r == &**request && s == &**alternative))
        })
}

fn column<'a>(attribute: &'a Text, spec: &'a DeviceRequest, snapshot: &Snapshot) -> Column<'a> {
    // The last of several with one name counts, as in a map.
    if let Some(derived) = spec.derived_attributes.iter().rev().find(|derived| derived.name == *attribute) {
        return Column::Derived(&derived.name, &derived.expression);
    }
    if attribute.contains('/') {
        Column::Attribute(snapshot.names().get(&QualifiedName::of_key(attribute, "")))
    } else {
        Column::Unqualified(attribute)
    }
}
