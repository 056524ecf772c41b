//! The status of definitions: accepted names, whether they are served, and the progress of their removal.

use std::collections::BTreeMap;

use lazaret_fields::value::{append, field_mut, list, list_mut, put, remove, text, texts};
use lazaret_json::{Value, json};

/// Keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The definitions whose status is not what it should be, by their place in `definitions`, as they should be. Of two that want the same
/// name in a group, the one that has it keeps it; else the one that comes first gets it.
#[must_use]
pub fn settled(definitions: &[Value], timestamp: &str) -> Vec<(usize, Value)> {
    let mut taken = UsedNames::default();
    definitions.iter().for_each(|definition| taken.add(definition));
    let mut changed = Vec::new();
    for (at, definition) in definitions.iter().enumerate() {
        taken.remove(definition);
        let wanted = settle(definition, &taken, timestamp);
        taken.add(&wanted);
        if wanted != *definition {
            changed.push((at, wanted));
        }
    }
    changed
}

/// Names that definitions have, by group: how many have each.
#[derive(Default)]
struct UsedNames {
    resources: BTreeMap<(String, String), usize>,
    kinds: BTreeMap<(String, String), usize>,
}

impl UsedNames {
    fn add(&mut self, definition: &Value) {
        let count = |names: &mut BTreeMap<_, usize>, name| *names.entry(name).or_default() += 1;
        resources_of(definition).for_each(|name| count(&mut self.resources, name));
        kinds_of(definition).for_each(|name| count(&mut self.kinds, name));
    }

    fn remove(&mut self, definition: &Value) {
        let count = |names: &mut BTreeMap<_, usize>, name| {
            if let Some(count) = names.get_mut(&name) {
                *count = count.saturating_sub(1);
            }
        };
        resources_of(definition).for_each(|name| count(&mut self.resources, name));
        kinds_of(definition).for_each(|name| count(&mut self.kinds, name));
    }
}

/// The names of resources that a definition has, with its group.
fn resources_of(definition: &Value) -> impl Iterator<Item = (String, String)> {
    let names = &definition["status"]["acceptedNames"];
    let said = ["plural", "singular"].map(|field| text(names, field));
    in_group(definition, said.into_iter().chain(texts(names, "shortNames")))
}

/// The names of kinds that a definition has, with its group.
fn kinds_of(definition: &Value) -> impl Iterator<Item = (String, String)> {
    let names = &definition["status"]["acceptedNames"];
    in_group(definition, ["kind", "listKind"].map(|field| text(names, field)).into_iter())
}

fn in_group<'a>(
    definition: &'a Value,
    names: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = (String, String)> {
    let group = text(&definition["spec"], "group");
    names.filter(|name| !name.is_empty()).map(|name| (group.to_owned(), name.to_owned()))
}

/// Whether its names are accepted, so that its kinds are served.
#[must_use]
pub fn is_established(definition: &Value) -> bool {
    is_true(definition, "Established")
}

/// Whether its objects are being deleted.
#[must_use]
pub fn is_ending(definition: &Value) -> bool {
    is_true(definition, "Terminating")
}

/// Marks a definition whose removal was asked for.
pub fn begin_removal(definition: &mut Value, timestamp: &str) {
    let metadata = field_mut(definition, "metadata");
    if !texts(metadata, "finalizers").any(|name| name == CLEANUP_FINALIZER) {
        append(metadata, "finalizers", CLEANUP_FINALIZER.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, "Terminating", "True", "InstanceDeletionPending", message, timestamp);
}

/// Notes how many objects of a definition that is being removed are left.
pub fn removal_progress(definition: &mut Value, left: usize, timestamp: &str) {
    let message = format!("CustomResource deletion is in progress: {left} left");
    set_condition(definition, "Terminating", "True", "InstanceDeletionInProgress", &message, timestamp);
}

fn is_true(definition: &Value, condition: &str) -> bool {
    list(&definition["status"], "conditions")
        .iter()
        .any(|known| known["type"] == condition && known["status"] == "True")
}

/// One definition as its status should be, given the names that others have.
fn settle(definition: &Value, taken: &UsedNames, timestamp: &str) -> Value {
    let mut definition = definition.clone();
    let group = text(&definition["spec"], "group").to_owned();
    let wanted = definition["spec"]["names"].clone();
    let mut accepted = definition["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict: Option<(&str, String)> = None;
    for (field, used, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        let asked: Vec<&str> = match wanted[field].as_str() {
            Some(one) => vec![one],
            None => texts(&wanted, field).collect(),
        };
        let clashes: Vec<String> = asked
            .iter()
            .filter(|name| used.get(&(group.clone(), (**name).to_owned())).is_some_and(|count| *count > 0))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        if clashes.is_empty() {
            copy(&mut accepted, &wanted, field);
        } else {
            conflict = Some((reason, clashes.join(", ")));
        }
    }
    copy(&mut accepted, &wanted, "categories");
    put(field_mut(&mut definition, "status"), "acceptedNames", accepted);
    match &conflict {
        Some((reason, why)) => {
            set_condition(&mut definition, "NamesAccepted", "False", reason, why, timestamp)
        }
        None => set_condition(
            &mut definition,
            "NamesAccepted",
            "True",
            "NoConflicts",
            "no conflicts found",
            timestamp,
        ),
    }
    if conflict.is_none() {
        let why = "the initial names have been accepted";
        set_condition(&mut definition, "Established", "True", "InitialNamesAccepted", why, timestamp);
    } else if !is_established(&definition) {
        let why = "not all names are accepted";
        set_condition(&mut definition, "Established", "False", "NotAccepted", why, timestamp);
    }
    definition
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field).filter(|value| !value.is_null()) {
        Some(value) => put(to, field, value.clone()),
        None => remove(to, field),
    }
}

/// Sets a condition; its time of transition changes only with its status.
fn set_condition(
    definition: &mut Value,
    name: &str,
    status: &str,
    reason: &str,
    message: &str,
    timestamp: &str,
) {
    let holder = field_mut(definition, "status");
    let known = list_mut(holder, "conditions").iter_mut().find(|known| known["type"] == name);
    let mut condition = json!({"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": timestamp});
    match known {
        Some(known) => {
            if known["status"] == status {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => append(holder, "conditions", condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({"spec": {"group": "example.com", "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": short}}})
    }

    fn condition<'a>(definition: &'a Value, name: &str) -> (&'a str, &'a str) {
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|known| known["type"] == name).unwrap();
        (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
    }

    #[test]
    fn the_first_gets_a_name_and_keeps_it_until_it_is_gone() {
        let mut all = vec![definition("widgets", "Widget", &["w"]), definition("wonders", "Wonder", &["w"])];
        let changed = settled(&all, "t0");
        assert_eq!(changed.len(), 2);
        for (at, wanted) in changed {
            all[at] = wanted;
        }
        assert_eq!(condition(&all[0], "Established"), ("True", "InitialNamesAccepted"));
        assert_eq!(condition(&all[1], "NamesAccepted"), ("False", "ShortNamesConflict"));
        assert_eq!(condition(&all[1], "Established"), ("False", "NotAccepted"));
        assert_eq!(all[1]["status"]["acceptedNames"].get("shortNames"), None);
        assert_eq!(all[1]["status"]["acceptedNames"]["plural"], "wonders", "what is free is accepted");
        assert!(settled(&all, "t1").is_empty(), "once settled, nothing changes");

        all.swap(0, 1);
        assert!(settled(&all, "t1").is_empty(), "who has a name keeps it whatever the order");
        all.truncate(1);
        let changed = settled(&all, "t2");
        assert_eq!(condition(&changed[0].1, "Established"), ("True", "InitialNamesAccepted"));
        assert_eq!(changed[0].1["status"]["acceptedNames"]["shortNames"], json!(["w"]));
    }

    #[test]
    fn an_established_kind_stays_so_when_it_asks_for_a_name_it_cannot_have() {
        let mut all = vec![definition("widgets", "Widget", &["w"]), definition("wonders", "Wonder", &[])];
        for (at, wanted) in settled(&all, "t0") {
            all[at] = wanted;
        }
        all[1]["spec"]["names"]["shortNames"] = json!(["w"]);
        let changed = settled(&all, "t1");
        assert_eq!(condition(&changed[0].1, "Established").0, "True");
        assert_eq!(condition(&changed[0].1, "NamesAccepted").0, "False");
    }

    #[test]
    fn removal_is_marked_once() {
        let mut one = definition("widgets", "Widget", &[]);
        begin_removal(&mut one, "t0");
        begin_removal(&mut one, "t1");
        assert_eq!(one["metadata"]["finalizers"], json!([CLEANUP_FINALIZER]));
        assert!(is_ending(&one));
        removal_progress(&mut one, 2, "t2");
        let terminating = &one["status"]["conditions"][0];
        assert_eq!(
            (&terminating["reason"], &terminating["lastTransitionTime"]),
            (&json!("InstanceDeletionInProgress"), &json!("t0"))
        );
    }
}
