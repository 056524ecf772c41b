//! Shared helpers of tests: a server's way through the rules, in memory.

use lazaret_json::{Value, json};

use crate::{Access, Context, Errors, Features, Kind, User, find};

/// The surroundings of a request.
pub(crate) struct World {
    pub(crate) features: Features,
    pub(crate) user: User,
    pub(crate) namespace: Value,
    pub(crate) version: &'static str,
    pub(crate) may: fn(Access<'_>) -> bool,
    pub(crate) others: Vec<(&'static str, &'static str, Value)>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) object: Value,
    pub(crate) errors: Errors,
}

impl Outcome {
    /// Path and reason of each error, `path reason`, in order of their paths.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let short = |reason: &str| reason.strip_prefix("FieldValue").unwrap_or(reason).to_owned();
        let mut wrong: Vec<String> = self
            .errors
            .list()
            .iter()
            .map(|error| format!("{} {}", error.path, short(error.reason())))
            .collect();
        wrong.sort();
        wrong
    }

    pub(crate) fn ok(self) -> Value {
        assert!(self.errors.is_empty(), "{:?}", self.errors.list());
        self.object
    }
}

pub(crate) const NOW: &str = "2026-03-01T12:00:00Z";

impl World {
    pub(crate) fn new() -> Self {
        Self {
            features: Features::kubernetes_1_37(),
            user: User { name: "admin".into(), ..User::default() },
            namespace: json!({"metadata": {"name": "default"}}),
            version: "v1",
            may: |_| true,
            others: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, gate: &str, on: bool) -> Self {
        self.features.set(gate, on);
        self
    }

    pub(crate) fn in_version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn context<T>(&self, inner: impl FnOnce(&Context<'_>) -> T) -> T {
        let lookup = |resource: &str, _: &str, name: &str| {
            let mut found =
                self.others.iter().filter(|(plural, known, _)| (*plural, *known) == (resource, name));
            found.next().map(|(_, _, object)| object.clone())
        };
        inner(&Context {
            now: NOW.parse().unwrap(),
            features: &self.features,
            user: &self.user,
            verb: "update",
            version: self.version,
            namespace: &|| Some(self.namespace.clone()),
            lookup: &lookup,
            may: &self.may,
        })
    }

    pub(crate) fn create(&self, kind: &Kind, object: Value) -> Outcome {
        self.context(|context| {
            let (mut object, mut errors) = (object, Errors::new());
            kind.rules.from_version(&mut object, self.version, None);
            kind.rules.default(&mut object, context);
            kind.rules.prepare_create(&mut object, context);
            kind.rules.validate_create(&object, context, &mut errors);
            Outcome { object, errors }
        })
    }

    pub(crate) fn update(&self, kind: &Kind, old: &Value, new: Value) -> Outcome {
        self.context(|context| {
            let (mut object, mut errors) = (new, Errors::new());
            kind.rules.from_version(&mut object, self.version, Some(old));
            kind.rules.default_update(&mut object, old, context);
            kind.rules.prepare_update(&mut object, old, context);
            kind.rules.validate_update(&object, old, context, &mut errors);
            Outcome { object, errors }
        })
    }

    pub(crate) fn status(&self, kind: &Kind, old: &Value, new: Value) -> Outcome {
        self.context(|context| {
            let (mut object, mut errors) = (new, Errors::new());
            kind.rules.from_version(&mut object, self.version, Some(old));
            kind.rules.default_update(&mut object, old, context);
            kind.rules.prepare_status(&mut object, old, context);
            kind.rules.validate_status(&object, old, context, &mut errors);
            Outcome { object, errors }
        })
    }

    /// The columns by name, and one row of cells, as text.
    pub(crate) fn row(&self, kind: &Kind, object: &Value) -> Vec<String> {
        let cells = self.context(|context| kind.rules.cells(object, context));
        assert_eq!(cells.len(), kind.rules.columns().len(), "{kind:?}");
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        kind.rules
            .columns()
            .iter()
            .zip(&cells)
            .map(|(column, cell)| format!("{}={}", column.name, text(cell)))
            .collect()
    }
}

/// A kind that must exist.
pub(crate) fn kind(group: &str, plural: &str) -> &'static Kind {
    find(group, plural).unwrap_or_else(|| panic!("no kind {group}/{plural}"))
}

/// An object with one value set at a JSON pointer, made as need be; `null` takes it away.
pub(crate) fn set(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    let mut at = &mut changed;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/");
        at = match step.parse::<usize>() {
            Ok(index) if at.is_array() => &mut at[index],
            _ => &mut at[step.as_str()],
        };
    }
    *at = value;
    changed
}
