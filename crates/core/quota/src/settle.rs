//! Whether quotas allow a write, and what they have used after it.

use alloc::{format, string::String, vec::Vec};

use lazaret_model::{Quantity, Timestamp};

use crate::{Amounts, Classes, Counted, Facts, Quota, Usage};

/// A write of one object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The kind of the object.
    pub kind: &'a Counted,
    /// As it was, unless it is new.
    pub old: Option<(&'a Facts, &'a Usage)>,
    /// As it will be, unless it goes.
    pub new: Option<(&'a Facts, &'a Usage)>,
    /// The part of the object that is written; empty for the whole.
    pub subresource: &'a str,
}

/// The new usage of each quota, in their order; `None` where it does not change.
///
/// # Errors
/// Why a quota does not allow it.
pub fn settle(
    now: Timestamp,
    quotas: &[Quota],
    change: &Change<'_>,
    classes: &Classes,
) -> Result<Vec<Option<Amounts>>, String> {
    let charges = change.charges();
    let amounts = |side: Option<(&Facts, &Usage)>| side.map(|(_, usage)| usage.at(now)).unwrap_or_default();
    let (old, new) = (amounts(change.old), amounts(change.new));
    let mut after = Vec::with_capacity(quotas.len());
    for quota in quotas {
        let covers = |side: Option<(&Facts, &Usage)>| {
            side.is_some_and(|(_, usage)| {
                quota.enforced_for(change.kind, classes).next().is_some() && quota.is_about(&usage.traits)
            })
        };
        let (covered, covers) = (covers(change.old), covers(change.new));
        let nothing = Amounts::default();
        let before = if covered { &old } else { &nothing };
        let wanted = if covers { &new } else { &nothing };
        if covers && charges {
            check_stated(quota, change, classes)?;
        }
        let more = if charges { limited(quota, &wanted.beyond(before)) } else { Amounts::default() };
        let less = limited(quota, &before.beyond(wanted));
        if change.subresource != "status" {
            check_room(quota, &more)?;
        }
        after.push(used_after(quota, &more, &less));
    }
    Ok(after)
}

impl Change<'_> {
    /// Whether more than before is charged: as Kubernetes does, for whole objects and for what can be resized.
    fn charges(&self) -> bool {
        match (self.old, self.new, self.subresource) {
            (None, Some(_), "") => true,
            (Some((Facts::Pod(old), _)), Some((Facts::Pod(new), _)), "") => {
                old.is_terminating() != new.is_terminating()
            }
            (Some((Facts::Pod(_), _)), Some(_), "resize") => true,
            (Some((Facts::VolumeClaim(_), _)), Some(_), "" | "status") => true,
            (Some((Facts::Service(_) | Facts::DeviceClaim(_), _)), Some(_), "") => true,
            _ => false,
        }
    }
}

fn limited(quota: &Quota, amounts: &Amounts) -> Amounts {
    amounts.only(|name| quota.enforced_amounts().is_some_and(|hard| hard.has(name)))
}

/// A quota of a resource wants to know how much of it is requested, and must know how much is used.
fn check_stated(quota: &Quota, change: &Change<'_>, classes: &Classes) -> Result<(), String> {
    let names = || quota.enforced_for(change.kind, classes);
    if let Some((Facts::Pod(pod), _)) = change.new
        && let Some(why) = pod.unspecified(names())
    {
        return Err(format!("failed quota: {}: {why}", quota.name()));
    }
    if names().any(|name| quota.used().is_none_or(|used| !used.has(name))) {
        let names: Vec<&str> = names().collect();
        return Err(format!("status unknown for quota: {}, resources: {}", quota.name(), names.join(",")));
    }
    Ok(())
}

fn check_room(quota: &Quota, more: &Amounts) -> Result<(), String> {
    // Nothing is enforced before the first status.
    let (Some(hard), Some(used)) = (quota.enforced_amounts(), quota.used()) else { return Ok(()) };
    let exceeds = |name: &str| {
        let total = more.get(name).zip(used.get(name)).map(|(more, used)| used.add(more));
        total.zip(hard.get(name)).is_some_and(|(total, hard)| total > *hard)
    };
    let exceeded = more.only(exceeds);
    if exceeded.is_empty() {
        return Ok(());
    }
    let of = |amounts: &Amounts| amounts.only(|name| exceeded.has(name));
    Err(format!(
        "exceeded quota: {}, requested: {exceeded}, used: {}, limited: {}",
        quota.name(),
        of(used),
        of(hard)
    ))
}

/// Usage never becomes negative: an amount that was not counted is not credited.
fn used_after(quota: &Quota, more: &Amounts, less: &Amounts) -> Option<Amounts> {
    let known = quota.used()?;
    let mut used = known.clone();
    more.iter().filter(|(name, _)| known.has(name)).for_each(|(name, amount)| used.add_one(name, amount));
    for (name, amount) in less.iter() {
        if let Some(known) = used.get(name) {
            let rest = known.sub(amount);
            used.set(name, if rest.is_negative() { Quantity::zero() } else { rest });
        }
    }
    (used != *known).then_some(used)
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
