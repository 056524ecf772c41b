//! From "taint these devices so" to the rules to make, to edit, to remove.

use lazaret_fleet::Origin;
use lazaret_model::{DeviceId, DeviceSelector, Effect, RuleRequest, Taint};

use super::{
    cluster::{Cluster, Meta},
    rule::{RuleDraft, rule_name},
    taint_spec::TaintSpec,
};

/// One rule to write.
#[derive(Clone, Debug)]
pub enum Change {
    /// There is none of this name.
    Create(RuleDraft),
    /// There is one, and it says something else.
    Update {
        /// The rule as it is to be.
        draft: RuleDraft,
        /// As it was read: the precondition.
        meta: Meta,
    },
    /// It is to go.
    Delete {
        /// Its name.
        name: String,
        /// Its incarnation: the precondition.
        uid: String,
        /// The taint that goes with it.
        taint: String,
        /// The devices, as its selector names them.
        devices: String,
    },
    /// It says so already.
    Unchanged {
        /// Its name.
        name: String,
    },
    /// No rule sets the taint that is to be removed.
    Absent {
        /// The devices.
        devices: String,
    },
}

impl Change {
    /// The rule it is about, if there is one.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Create(draft) | Self::Update { draft, .. } => Some(&draft.name),
            Self::Delete { name, .. } | Self::Unchanged { name } => Some(name),
            Self::Absent { .. } => None,
        }
    }
}

/// The user, the reason, and how far the change may go.
#[derive(Clone, Debug, Default)]
pub struct Intent {
    /// The reason.
    pub reason: Option<String>,
    /// The user.
    pub set_by: Option<String>,
    /// A taint of the same key and effect may get another value.
    pub overwrite: bool,
    /// That a taint to remove is not there is as good.
    pub absent_ok: bool,
    /// The request that all rules are made by, if there are several.
    pub request: Option<RuleRequest>,
}

/// The writes after which the devices of `targets` have, or have lost, these taints.
///
/// # Errors
/// A sentence: the taint has another value, or is not this command's to remove.
pub fn changes(
    cluster: &Cluster,
    targets: &[DeviceSelector],
    specs: &[TaintSpec],
    intent: &Intent,
) -> Result<Vec<Change>, String> {
    let mut changes: Vec<Change> = Vec::new();
    for spec in specs {
        for target in targets {
            match spec {
                TaintSpec::Set { key, value, effect } => {
                    let taint = Taint {
                        key: key.as_str().into(),
                        value: value.as_str().into(),
                        effect: effect.clone(),
                        ..Taint::default()
                    };
                    let name = rule_name(target, key, Some(effect));
                    changes.push(set(cluster, target, name, taint, intent)?);
                }
                TaintSpec::Remove { key, value, effect } => {
                    let wanted = Wanted { key, value: value.as_deref(), effect: effect.as_ref() };
                    for change in remove(cluster, target, targets, &wanted, intent.absent_ok)? {
                        let known = |known: &Change| change.rule().is_some() && known.rule() == change.rule();
                        if !changes.iter().any(known) {
                            changes.push(change);
                        }
                    }
                }
            }
        }
    }
    Ok(changes)
}

/// One rule of this name, with this taint, for these devices.
///
/// # Errors
/// A sentence: somebody else has a rule of that name, or its value may not be changed.
pub fn set(
    cluster: &Cluster,
    selector: &DeviceSelector,
    name: String,
    taint: Taint,
    intent: &Intent,
) -> Result<Change, String> {
    let draft = RuleDraft {
        selector: selector.clone(),
        reason: intent.reason.clone(),
        set_by: intent.set_by.clone(),
        request: intent.request.clone(),
        taint,
        name,
    };
    let (Some(meta), Some(view)) = (cluster.rules.get(&draft.name), cluster.everything().rule(&draft.name))
    else {
        return Ok(Change::Create(draft));
    };
    if !meta.is_ours() {
        return Err(format!(
            "DeviceTaintRule {} was not made by kubectl device: change it with kubectl edit devicetaintrule {}",
            draft.name, draft.name
        ));
    }
    let (old, new) = (&view.rule.taint, &draft.taint);
    if old.value != new.value && !intent.overwrite {
        return Err(format!(
            "{} is already tainted {old}: add --overwrite to change it to {new}",
            describe_selector(selector)
        ));
    }
    let same_reason =
        draft.reason.is_none() || meta.annotations.get(super::REASON_ANNOTATION) == draft.reason.as_ref();
    let same = old.value == new.value
        && old.effect == new.effect
        && same_reason
        && (new.evictions_per_second.is_none() || new.evictions_per_second == old.evictions_per_second);
    Ok(if same {
        Change::Unchanged { name: draft.name }
    } else {
        Change::Update { draft, meta: meta.clone() }
    })
}

struct Wanted<'a> {
    key: &'a str,
    value: Option<&'a str>,
    effect: Option<&'a Effect>,
}

impl Wanted<'_> {
    fn matches(&self, taint: &Taint) -> bool {
        *taint.key == *self.key
            && self.value.is_none_or(|value| *taint.value == *value)
            && self.effect.is_none_or(|effect| taint.effect == *effect)
    }

    fn text(&self) -> String {
        let value = self.value.map_or_else(String::new, |value| format!("={value}"));
        let effect = self.effect.map_or_else(String::new, |effect| format!(":{effect}"));
        format!("{}{value}{effect}", self.key)
    }
}

/// The rules of ours that put a taint on `target` and on nothing that is not among `targets`.
fn remove(
    cluster: &Cluster,
    target: &DeviceSelector,
    targets: &[DeviceSelector],
    wanted: &Wanted<'_>,
    absent_ok: bool,
) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let mut others = Vec::new();
    for view in cluster.everything().rules().filter(|view| wanted.matches(&view.rule.taint)) {
        let Some(selector) = &view.rule.selector else { continue };
        let Some(meta) = cluster.rules.get(view.rule.name.as_str()) else { continue };
        let name = view.rule.name.to_string();
        if covers(target, selector) || targets.iter().any(|target| covers(target, selector)) {
            if meta.is_ours() {
                changes.push(Change::Delete {
                    name,
                    uid: meta.uid.clone(),
                    taint: view.rule.taint.to_string(),
                    devices: describe_selector(selector),
                });
            } else {
                others.push(format!("DeviceTaintRule {name} sets it and was not made by kubectl device: kubectl delete devicetaintrule {name}"));
            }
        } else if overlaps(target, selector) && !meta.is_ours() {
            others.push(format!(
                "DeviceTaintRule {name} sets it, for {}, and was not made by kubectl device: kubectl delete devicetaintrule {name}",
                describe_selector(selector)
            ));
        } else if overlaps(target, selector) {
            others.push(format!(
                "DeviceTaintRule {name} sets it on more devices ({}): name all of them, or delete the rule",
                describe_selector(selector)
            ));
        }
    }
    if changes.is_empty() {
        others.extend(from_drivers(cluster, target, wanted));
        if others.is_empty() && absent_ok {
            return Ok(vec![Change::Absent { devices: describe_selector(target) }]);
        }
        let what =
            format!("{} has no taint {} set by kubectl device", describe_selector(target), wanted.text());
        return Err(if others.is_empty() { what } else { format!("{what}\n  {}", others.join("\n  ")) });
    }
    Ok(changes)
}

fn from_drivers(cluster: &Cluster, target: &DeviceSelector, wanted: &Wanted<'_>) -> Option<String> {
    let id = exact(target)?;
    let mut taints = cluster.everything().effective_taints(&id);
    taints.find_map(|effective| match effective.origin {
        Origin::Device { slice, .. } | Origin::TaintSlice { slice, .. } if wanted.matches(effective.taint) => Some(
            format!("its driver sets it, in ResourceSlice {slice}: only the driver removes it, when the device is healthy again"),
        ),
        Origin::Patch { name, .. } if wanted.matches(effective.taint) => {
            Some(format!("ResourceSlicePatch {name} sets it: kubectl edit resourceslicepatch {name}"))
        }
        Origin::Device { .. } | Origin::TaintSlice { .. } | Origin::Patch { .. } | Origin::Rule { .. } => None,
    })
}

/// The one device that a selector names.
#[must_use]
pub fn exact(selector: &DeviceSelector) -> Option<DeviceId> {
    let (driver, pool, device) = (selector.driver.clone()?, selector.pool.clone()?, selector.device.clone()?);
    Some(DeviceId { driver, pool, device })
}

/// The selector of one device.
#[must_use]
pub fn selector_of(id: &DeviceId) -> DeviceSelector {
    DeviceSelector {
        driver: Some(id.driver.clone()),
        pool: Some(id.pool.clone()),
        device: Some(id.device.clone()),
        ..DeviceSelector::default()
    }
}

/// Whether every device of `inner` is one of `outer`, by names and by what both say in the same words.
fn covers(outer: &DeviceSelector, inner: &DeviceSelector) -> bool {
    let part = |outer: &Option<lazaret_model::Text>, inner: &Option<lazaret_model::Text>| {
        outer.is_none() || outer == inner
    };
    part(&outer.driver, &inner.driver)
        && part(&outer.pool, &inner.pool)
        && part(&outer.device, &inner.device)
        && part(&outer.class, &inner.class)
        && outer.cel.iter().all(|expression| inner.cel.contains(expression))
}

fn overlaps(one: &DeviceSelector, other: &DeviceSelector) -> bool {
    let part = |one: &Option<lazaret_model::Text>, other: &Option<lazaret_model::Text>| {
        one.is_none() || other.is_none() || one == other
    };
    part(&one.driver, &other.driver) && part(&one.pool, &other.pool) && part(&one.device, &other.device)
}

/// `driver/pool/device` with `*` for what is open.
#[must_use]
pub fn describe_selector(selector: &DeviceSelector) -> String {
    let part = |part: &Option<lazaret_model::Text>| part.as_ref().map_or("*".to_owned(), ToString::to_string);
    let mut text = format!("{}/{}/{}", part(&selector.driver), part(&selector.pool), part(&selector.device));
    if let Some(class) = &selector.class {
        text.push_str(&format!(" of class {class}"));
    }
    if !selector.cel.is_empty() {
        text.push_str(" by expression");
    }
    text
}
