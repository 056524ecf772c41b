//! The allocator as one would first write it down: recursion, no state but the list of devices given so far, and
//! every question answered from the beginning each time it is asked.

use std::collections::BTreeSet;

use lazaret_allocator::Features;
use lazaret_cel::{Env, Outcome as Cel, SimpleDevice};
use lazaret_model::*;

use crate::dsl::Case;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Request path and device for every claim in order.
    Given(Vec<(usize, String, String)>),
    None,
    Fatal,
    Node,
    /// It took too long.
    Endless,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    Fatal,
    TooMany,
    Endless,
}

struct World<'a> {
    case: &'a Case,
    features: Features,
    pools: Vec<Pool<'a>>,
    steps: std::cell::Cell<u64>,
}

struct Pool<'a> {
    driver: &'a Text,
    name: &'a Text,
    usable: bool,
    invalid: bool,
    here: Vec<Place<'a>>,
    elsewhere: Vec<Place<'a>>,
    sets: Vec<&'a CounterSet>,
}

type Place<'a> = (&'a ResourceSlice, &'a Device);

/// How many devices, and which with their pools if it is all.
type Wanted<'a> = (i64, Option<Vec<(usize, Place<'a>)>>);

struct Ask<'a> {
    claim: usize,
    request: &'a Text,
    alternative: Option<&'a Text>,
    spec: &'a DeviceRequest,
    class: &'a DeviceClass,
}

#[derive(Clone)]
struct Pick<'a> {
    ask: std::rc::Rc<Ask<'a>>,
    pool: usize,
    place: Place<'a>,
    /// Amounts, when it is a share.
    share: Option<Vec<(Text, i64)>>,
    charged: bool,
}

pub(crate) fn solve(case: &Case) -> Outcome {
    let features = case.features.expect("features");
    let mut world = World { case, features, pools: Vec::new(), steps: std::cell::Cell::new(0) };
    world.pools = match world.gather() {
        Ok(pools) => pools,
        Err(_) => return Outcome::Fatal,
    };
    if world.validate().is_err() {
        return Outcome::Fatal;
    }
    match world.claim(0, &[]) {
        Err(Stop::Endless) => Outcome::Endless,
        Err(_) => Outcome::Fatal,
        Ok(Some(picks)) => Outcome::Given(
            picks
                .iter()
                .map(|pick| (pick.ask.claim, pick.ask.path(), world.id(pick.pool, pick.place)))
                .collect(),
        ),
        Ok(None) if world.pools.iter().any(|pool| pool.invalid) => Outcome::Node,
        Ok(None) => Outcome::None,
    }
}

impl Ask<'_> {
    fn path(&self) -> String {
        self.alternative.map_or_else(|| self.request.to_string(), |name| format!("{}/{name}", self.request))
    }

    fn admin(&self) -> bool {
        self.alternative.is_none() && self.spec.admin_access == Some(true)
    }

    fn under(&self, constraint: &Constraint) -> bool {
        let path = self.path();
        let names = &constraint.requests;
        names.is_empty() || names.iter().any(|name| name == self.request || **name == *path.as_str())
    }
}

impl<'a> World<'a> {
    fn id(&self, pool: usize, place: Place<'_>) -> String {
        format!("{}/{}/{}", self.pools[pool].driver, self.pools[pool].name, place.1.name)
    }

    fn reaches(&self, scope: Option<&NodeScope>) -> Result<bool, Stop> {
        match scope {
            Some(NodeScope::Node(name)) => Ok(*name == self.case.node.name),
            Some(NodeScope::All) => Ok(true),
            Some(NodeScope::Selector(selector)) => selector.matches(&self.case.node).map_err(|_| Stop::Fatal),
            Some(NodeScope::PerDevice | NodeScope::Unknown) | None => Ok(false),
        }
    }

    fn gather(&self) -> Result<Vec<Pool<'a>>, Stop> {
        let grouped = |slice: &ResourceSlice| {
            slice
                .devices
                .iter()
                .flat_map(|d| &d.consumes_counters)
                .any(|c| !c.compatibility_groups.is_empty())
        };
        let ids: BTreeSet<(&Text, &Text)> =
            self.case.slices.iter().map(|s| (&s.driver, &s.pool.name)).collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (driver, name) in ids {
            let mut all: Vec<&ResourceSlice> =
                self.case.slices.iter().filter(|s| (&s.driver, &s.pool.name) == (driver, name)).collect();
            all.sort_by(|a, b| a.name.cmp(&b.name));
            let mut relevant = Vec::new();
            for slice in &all {
                let partitions = slice.nodes == NodeScope::PerDevice || !slice.shared_counters.is_empty();
                if (partitions && !self.features.partitionable_devices)
                    || (grouped(slice) && !self.features.compatibility_groups)
                {
                    continue;
                }
                let mut reached = self.reaches(Some(&slice.nodes))?;
                if slice.nodes == NodeScope::PerDevice {
                    for device in &slice.devices {
                        reached |= self.reaches(device.nodes.as_ref())?;
                    }
                }
                if reached {
                    relevant.push(*slice);
                }
            }
            let Some(generation) = relevant.iter().map(|s| s.pool.generation).max() else { continue };
            relevant.retain(|s| s.pool.generation == generation);
            let wanted = relevant[0].pool.slice_count;
            let mut seen = relevant.clone();
            let mut pool = Pool {
                driver,
                name,
                usable: true,
                invalid: false,
                here: vec![],
                elsewhere: vec![],
                sets: vec![],
            };
            if relevant.len() as i64 != wanted {
                if all.iter().any(|s| s.pool.generation > generation) {
                    continue;
                }
                seen = all.iter().copied().filter(|s| s.pool.generation == generation).collect();
                seen.retain(|s| self.features.compatibility_groups || !grouped(s));
                if seen.len() as i64 != wanted {
                    pool.usable = false;
                    first.push(pool);
                    continue;
                }
            }
            for slice in seen {
                if self.features.partitionable_devices && !slice.shared_counters.is_empty() {
                    pool.sets.extend(&slice.shared_counters);
                } else if relevant.iter().any(|r| r.name == slice.name) {
                    pool.here.extend(slice.devices.iter().map(|d| (slice, d)));
                } else {
                    pool.elsewhere.extend(slice.devices.iter().map(|d| (slice, d)));
                }
            }
            if !self.valid(&pool) {
                (pool.usable, pool.invalid) = (false, true);
                first.push(pool);
            } else if pool.here.iter().any(|(_, d)| d.binding_conditions.is_some()) {
                last.push(pool);
            } else {
                first.push(pool);
            }
        }
        first.extend(last);
        Ok(first)
    }

    fn valid(&self, pool: &Pool<'_>) -> bool {
        let names: BTreeSet<_> = pool.here.iter().map(|(_, d)| &d.name).collect();
        let sets: BTreeSet<_> = pool.sets.iter().map(|s| &s.name).collect();
        let known = |consumed: &CounterConsumption| {
            let set = pool.sets.iter().find(|s| s.name == consumed.counter_set);
            set.is_some_and(|set| {
                consumed.counters.iter().all(|(n, _)| set.counters.iter().any(|(m, _)| n == m))
            })
        };
        names.len() == pool.here.len()
            && (!self.features.partitionable_devices
                || (sets.len() == pool.sets.len()
                    && pool
                        .here
                        .iter()
                        .chain(&pool.elsewhere)
                        .flat_map(|(_, d)| &d.consumes_counters)
                        .all(known)))
    }

    fn asks(&self, claim: usize, request: usize) -> Result<Vec<Ask<'a>>, Stop> {
        let request = &self.case.claims[claim].spec.requests[request];
        let (specs, list) = match &request.kind {
            RequestKind::Exactly(spec) => (std::slice::from_ref(spec), false),
            RequestKind::FirstAvailable(list) => (list.as_slice(), true),
            RequestKind::Unknown => return Err(Stop::Fatal),
        };
        if list && !self.features.prioritized_list {
            return Err(Stop::Fatal);
        }
        let ask = |spec: &'a DeviceRequest| {
            let off = (spec.capacity.is_some() && !self.features.consumable_capacity)
                || (!spec.derived_attributes.is_empty() && !self.features.derived_attributes)
                || (spec.admin_access.is_some() && !self.features.admin_access && !list)
                || spec.selectors.iter().any(Option::is_none)
                || matches!(spec.mode, AllocationMode::Unknown(_));
            let class = self.case.classes.iter().find(|class| class.name == spec.class);
            let alternative = list.then_some(&spec.name);
            match class {
                Some(class) if !off => Ok(Ask { claim, request: &request.name, alternative, spec, class }),
                _ => Err(Stop::Fatal),
            }
        };
        specs.iter().map(ask).collect()
    }

    fn validate(&self) -> Result<(), Stop> {
        for (at, claim) in self.case.claims.iter().enumerate() {
            let mut least = 0;
            for request in 0..claim.spec.requests.len() {
                let asks = self.asks(at, request)?;
                let counts: Result<Vec<i64>, Stop> = asks.iter().map(|ask| Ok(self.wanted(ask)?.0)).collect();
                least += counts?.into_iter().min().unwrap_or(0);
            }
            let unknown = claim.spec.constraints.iter().any(|c| c.kind == ConstraintKind::Unknown);
            if least > 32 || unknown {
                return Err(Stop::Fatal);
            }
        }
        Ok(())
    }

    /// How many devices, and which if it is all.
    fn wanted(&self, ask: &Ask<'a>) -> Result<Wanted<'a>, Stop> {
        if let AllocationMode::Exact(count) = ask.spec.mode {
            return Ok((count, None));
        }
        if self.pools.iter().any(|pool| !pool.usable) {
            return Err(Stop::Fatal);
        }
        let mut all = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            for place in &pool.here {
                if self.selectable(ask, *place)?
                    && (!self.features.consumable_capacity
                        || self.amounts(ask, place.1)?.is_some_and(|a| fits(place.1, &a, &[])))
                {
                    all.push((at, *place));
                }
            }
        }
        Ok((all.len() as i64, Some(all)))
    }

    fn claim(&self, claim: usize, picks: &[Pick<'a>]) -> Result<Option<Vec<Pick<'a>>>, Stop> {
        if claim == self.case.claims.len() {
            return Ok(Some(picks.to_vec()));
        }
        self.request(claim, 0, picks)
    }

    fn request(
        &self,
        claim: usize,
        request: usize,
        picks: &[Pick<'a>],
    ) -> Result<Option<Vec<Pick<'a>>>, Stop> {
        if request == self.case.claims[claim].spec.requests.len() {
            return match self.claim(claim + 1, picks) {
                Err(Stop::TooMany) => Ok(None),
                other => other,
            };
        }
        let asks = self.asks(claim, request)?;
        if asks[0].alternative.is_none() {
            return self.devices(&std::rc::Rc::new(asks.into_iter().next().unwrap()), request, 0, 0, picks);
        }
        let mut all_too_many = true;
        for ask in asks {
            match self.devices(&std::rc::Rc::new(ask), request, 0, 0, picks) {
                Err(Stop::TooMany) => {}
                Ok(None) => all_too_many = false,
                other => return other,
            }
        }
        if all_too_many { Err(Stop::TooMany) } else { Ok(None) }
    }

    fn devices(
        &self,
        ask: &std::rc::Rc<Ask<'a>>,
        request: usize,
        nth: i64,
        start: usize,
        picks: &[Pick<'a>],
    ) -> Result<Option<Vec<Pick<'a>>>, Stop> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > 20_000 {
            return Err(Stop::Endless);
        }
        let (wanted, all) = self.wanted(ask)?;
        if all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        if nth >= wanted {
            return self.request(ask.claim, request + 1, picks);
        }
        let has = picks.iter().filter(|pick| pick.ask.claim == ask.claim).count() as i64;
        if has + wanted - nth > 32 {
            return Err(Stop::TooMany);
        }
        if let Some(all) = all {
            let (pool, place) = all[usize::try_from(nth).unwrap()];
            let Some(pick) = self.can(ask, pool, place, picks, true)? else { return Ok(None) };
            return self.devices(ask, request, nth + 1, 0, &[picks, &[pick]].concat());
        }
        let places = self
            .pools
            .iter()
            .enumerate()
            .flat_map(|(at, pool)| pool.here.iter().map(move |place| (at, *place)));
        let usable = places.enumerate().filter(|(_, (pool, _))| self.pools[*pool].usable);
        for (at, (pool, place)) in usable.filter(|(at, _)| *at >= start) {
            if self.used(ask, pool, place, picks) || !self.selectable(ask, place)? {
                continue;
            }
            if self.features.consumable_capacity && self.room(ask, pool, place, picks)?.is_none() {
                continue;
            }
            if let Some(pick) = self.can(ask, pool, place, picks, false)?
                && let Some(found) =
                    self.devices(ask, request, nth + 1, at + 1, &[picks, &[pick]].concat())?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn held(&self, pool: usize, device: &Device) -> impl Iterator<Item = &DeviceResult> + use<'_, 'a> {
        let Pool { driver, name, .. } = &self.pools[pool];
        let id = DeviceId::new((*driver).clone(), (*name).clone(), device.name.clone());
        let allocations = self.case.held.iter().filter_map(|claim| claim.allocation.as_deref());
        allocations.flat_map(|a| &a.results).filter(move |r| r.device == id && !r.admin_access)
    }

    fn same(a: Place<'_>, b: Place<'_>) -> bool {
        std::ptr::eq(a.1, b.1)
    }

    fn used(&self, ask: &Ask<'_>, pool: usize, place: Place<'_>, picks: &[Pick<'_>]) -> bool {
        let mut whole = picks.iter().filter(|pick| pick.share.is_none() && Self::same(pick.place, place));
        if ask.admin() {
            return whole.any(|pick| pick.ask.claim == ask.claim);
        }
        whole.next().is_some()
            || self.held(pool, place.1).any(|r| r.share_id.is_none() || !self.features.consumable_capacity)
    }

    fn simple(&self, place: Place<'_>) -> (SimpleDevice, AttrNames) {
        let mut names = AttrNames::default();
        let device = SimpleDevice::new(
            &place.0.driver,
            place.1.attributes.clone(),
            place.1.capacity.iter().map(|(key, c)| (key.clone(), c.value.clone())),
            place.1.allow_multiple_allocations == Some(true),
            &mut names,
        );
        (device, names)
    }

    fn selectable(&self, ask: &Ask<'_>, place: Place<'_>) -> Result<bool, Stop> {
        if !self.features.binds() && place.1.binding_conditions.as_ref().is_some_and(|c| !c.is_empty()) {
            return Ok(false);
        }
        let (device, names) = self.simple(place);
        for selector in ask.class.selectors.iter().chain(&ask.spec.selectors) {
            let expression = selector.as_ref().ok_or(Stop::Fatal)?;
            let program = lazaret_cel::compile(expression, &Env::stored()).map_err(|_| Stop::Fatal)?;
            match program.bind(&names).matches(&device) {
                Cel::Match => {}
                Cel::NoMatch => return Ok(false),
                Cel::Error(_) => return Err(Stop::Fatal),
            }
        }
        if place.0.nodes == NodeScope::PerDevice { self.reaches(place.1.nodes.as_ref()) } else { Ok(true) }
    }

    /// The amount requested of each capacity; `None` when no such device can provide it.
    fn amounts(&self, ask: &Ask<'_>, device: &Device) -> Result<Option<Vec<(Text, i64)>>, Stop> {
        let whole = |quantity: &Quantity| quantity.as_i64().expect("whole amounts");
        let asked = ask.spec.capacity.as_deref().unwrap_or(&[]);
        if asked.iter().any(|(key, _)| device.capacity.iter().all(|(name, _)| name != key)) {
            return Ok(None);
        }
        let mut amounts = Vec::new();
        let mut refused = false;
        for (key, capacity) in &device.capacity {
            let asked = asked.iter().find(|(name, _)| name == key).map(|(_, amount)| whole(amount));
            let policy = capacity.policy.clone().unwrap_or_default();
            let mut amount =
                asked.unwrap_or_else(|| policy.default.as_ref().map_or(whole(&capacity.value), whole));
            let mut allowed = true;
            if let Some(range) = &policy.valid_range {
                let (min, step) = (range.min.as_ref().map_or(0, whole), range.step.as_ref().map_or(1, whole));
                while asked.is_some() && (amount < min || (amount - min) % step != 0) {
                    amount += 1;
                }
                allowed = amount >= min
                    && (amount - min) % step == 0
                    && range.max.as_ref().is_none_or(|m| amount <= whole(m));
            } else if !policy.valid_values.is_empty() {
                let values: Vec<i64> = policy.valid_values.iter().map(whole).collect();
                if asked.is_some() {
                    amount = values.iter().copied().find(|value| *value >= amount).unwrap_or(amount);
                }
                allowed = values.contains(&amount);
            }
            if amount < 0 {
                return Err(Stop::Fatal);
            }
            refused |= !allowed && policy.default.as_ref().map(whole) != Some(amount);
            amounts.push((key.clone(), amount));
        }
        Ok((!refused).then_some(amounts))
    }

    fn room(
        &self,
        ask: &Ask<'_>,
        pool: usize,
        place: Place<'_>,
        picks: &[Pick<'_>],
    ) -> Result<Option<Vec<(Text, i64)>>, Stop> {
        let Some(amounts) = self.amounts(ask, place.1)? else { return Ok(None) };
        let mut taken = Vec::new();
        for result in self.held(pool, place.1).filter(|r| r.share_id.is_some()) {
            taken.extend(
                result.consumed_capacity.iter().map(|(key, amount)| (key.clone(), amount.as_i64().unwrap())),
            );
        }
        for pick in picks.iter().filter(|pick| Self::same(pick.place, place)) {
            taken.extend(pick.share.iter().flatten().cloned());
        }
        Ok(fits(place.1, &amounts, &taken).then_some(amounts))
    }

    fn can(
        &self,
        ask: &std::rc::Rc<Ask<'a>>,
        pool: usize,
        place: Place<'a>,
        picks: &[Pick<'a>],
        must: bool,
    ) -> Result<Option<Pick<'a>>, Stop> {
        let shareable = self.features.consumable_capacity && place.1.allow_multiple_allocations == Some(true);
        if self.used(ask, pool, place, picks) && !(shareable && ask.admin()) {
            return Ok(None);
        }
        let declared = self.case.node.declared_features.iter().any(|f| **f == *"DRAOptionalNodeOperations");
        let may_skip = self.features.optional_node_operations && declared;
        if !place.0.skip_node_operations.is_empty() && !may_skip {
            return Ok(None);
        }
        let consumes = !place.1.consumes_counters.is_empty();
        if consumes && !self.features.partitionable_devices {
            return Ok(None);
        }
        let already = self.held(pool, place.1).any(|r| r.share_id.is_some())
            || picks.iter().any(|pick| pick.share.is_some() && Self::same(pick.place, place));
        let charged = consumes && !(shareable && already);
        let mut pick = Pick { ask: ask.clone(), pool, place, share: None, charged };
        if charged && !(self.groups_agree(&pick, picks) && self.counters_suffice(&pick, picks)) {
            return Ok(None);
        }
        let tolerated = |taint: &Taint| ask.spec.tolerations.iter().any(|t| tolerates(t, taint));
        if self.features.device_taints
            && place.1.taints.iter().any(|t| t.effect.blocks_allocation() && !tolerated(t))
        {
            return Ok(None);
        }
        for constraint in &self.case.claims[ask.claim].spec.constraints {
            if ask.under(constraint) && !self.satisfied(constraint, &pick, picks)? {
                return if must { Err(Stop::Fatal) } else { Ok(None) };
            }
        }
        if self.features.consumable_capacity {
            let Some(amounts) = self.room(ask, pool, place, picks)? else { return Ok(None) };
            pick.share = shareable.then_some(amounts);
        }
        Ok(Some(pick))
    }

    /// The devices of the pool that draw from counters, besides the new one.
    fn drawing<'p>(
        &'p self,
        pick: &'p Pick<'a>,
        picks: &'p [Pick<'a>],
    ) -> impl Iterator<Item = &'a Device> + 'p {
        let pool = &self.pools[pick.pool];
        let allocated = pool.here.iter().chain(&pool.elsewhere).map(|(_, device)| *device);
        let allocated = allocated.filter(move |device| self.held(pick.pool, device).next().is_some());
        let picked = picks.iter().filter(move |other| other.pool == pick.pool && other.charged);
        allocated.chain(picked.map(|other| other.place.1))
    }

    fn counters_suffice(&self, pick: &Pick<'a>, picks: &[Pick<'a>]) -> bool {
        self.pools[pick.pool].sets.iter().all(|set| {
            set.counters.iter().all(|(name, value)| {
                let drawn =
                    self.drawing(pick, picks).chain([pick.place.1]).flat_map(|d| &d.consumes_counters);
                let drawn = drawn.filter(|c| c.counter_set == set.name).flat_map(|c| &c.counters);
                let sum: i64 =
                    drawn.filter(|(n, _)| n == name).map(|(_, amount)| amount.as_i64().unwrap()).sum();
                sum <= value.as_i64().unwrap()
            })
        })
    }

    fn groups_agree(&self, pick: &Pick<'a>, picks: &[Pick<'a>]) -> bool {
        if !self.features.compatibility_groups {
            return true;
        }
        pick.place.1.consumes_counters.iter().all(|own| {
            // `None`: no device draws from the set yet. Devices that are already allocated are accepted as they are.
            let mut common: Option<BTreeSet<&Text>> = None;
            for other in self.drawing(pick, picks).flat_map(|d| &d.consumes_counters) {
                if other.counter_set != own.counter_set {
                    continue;
                }
                let groups: BTreeSet<&Text> = other.compatibility_groups.iter().collect();
                common = Some(match common {
                    None => groups,
                    Some(common) if common.is_empty() && !groups.is_empty() => common,
                    Some(common) if groups.is_empty() => common,
                    Some(common) => common.intersection(&groups).copied().collect(),
                });
            }
            // Grouped devices without a common group admit no further device; ungrouped devices admit only ungrouped ones.
            let grouped = self.drawing(pick, picks).flat_map(|d| &d.consumes_counters);
            let first = grouped
                .filter(|c| c.counter_set == own.counter_set)
                .map(|c| c.compatibility_groups.is_empty())
                .next();
            match (first, common) {
                (None, _) | (_, None) => true,
                (Some(true), Some(_)) => own.compatibility_groups.is_empty(),
                (Some(false), Some(common)) => {
                    own.compatibility_groups.iter().any(|group| common.contains(group))
                }
            }
        })
    }

    fn attribute(&self, ask: &Ask<'_>, place: Place<'_>, name: &Text) -> Result<Option<AttrValue>, Stop> {
        if let Some(derived) = ask.spec.derived_attributes.iter().find(|d| d.name == *name) {
            let (device, names) = self.simple(place);
            let program =
                lazaret_cel::compile_derived(&derived.expression, &Env::stored()).map_err(|_| Stop::Fatal)?;
            return program.bind(&names).derive(&device).map(Some).map_err(|_| Stop::Fatal);
        }
        let find =
            |key: &str| place.1.attributes.iter().find(|(k, _)| **k == *key).map(|(_, value)| value.clone());
        let own = name
            .split_once('/')
            .filter(|(domain, _)| *domain == &*place.0.driver)
            .and_then(|(_, id)| find(id));
        Ok(find(name).or(own))
    }

    fn satisfied(&self, constraint: &Constraint, pick: &Pick<'a>, picks: &[Pick<'a>]) -> Result<bool, Stop> {
        let (name, is_match) = match &constraint.kind {
            ConstraintKind::Match(name) => (name, true),
            ConstraintKind::Distinct(name) => (name, false),
            ConstraintKind::Unknown => return Err(Stop::Fatal),
        };
        let Some(own) = self.attribute(&pick.ask, pick.place, name)? else { return Ok(false) };
        let mut others = Vec::new();
        for other in picks.iter().filter(|o| o.ask.claim == pick.ask.claim && o.ask.under(constraint)) {
            others.extend(self.attribute(&other.ask, other.place, name)?);
        }
        if self.features.list_type_attributes {
            let own = elements(&own);
            let others: Vec<BTreeSet<String>> = others.iter().map(elements).collect();
            return Ok(!own.is_empty()
                && if is_match {
                    !others.into_iter().fold(own, |common, other| &common & &other).is_empty()
                } else {
                    others.iter().all(|other| other.is_disjoint(&own))
                });
        }
        let scalar = |value: &AttrValue| {
            matches!(
                value,
                AttrValue::Int(_) | AttrValue::Bool(_) | AttrValue::String(_) | AttrValue::Version(_)
            )
        };
        Ok(others.is_empty()
            || (scalar(&own)
                && if is_match { others[0] == own } else { others.iter().all(|other| *other != own) }))
    }
}

fn elements(value: &AttrValue) -> BTreeSet<String> {
    match value {
        AttrValue::Int(int) => [format!("i{int}")].into(),
        AttrValue::Bool(bool) => [format!("b{bool}")].into(),
        AttrValue::String(text) => [format!("s{text}")].into(),
        AttrValue::Version(version) => [format!("v{}", version.text)].into(),
        AttrValue::Ints(ints) => ints.iter().map(|int| format!("i{int}")).collect(),
        AttrValue::Bools(bools) => bools.iter().map(|bool| format!("b{bool}")).collect(),
        AttrValue::Strings(texts) => texts.iter().map(|text| format!("s{text}")).collect(),
        AttrValue::Versions(versions) => {
            versions.iter().map(|version| format!("v{}", version.text)).collect()
        }
        AttrValue::Unsupported => BTreeSet::new(),
    }
}

fn fits(device: &Device, amounts: &[(Text, i64)], taken: &[(Text, i64)]) -> bool {
    amounts.iter().all(|(key, amount)| {
        let others: i64 = taken.iter().filter(|(name, _)| name == key).map(|(_, amount)| amount).sum();
        let limit =
            device.capacity.iter().find(|(name, _)| name == key).map(|(_, c)| c.value.as_i64().unwrap());
        limit.is_some_and(|limit| amount + others <= limit)
    })
}
