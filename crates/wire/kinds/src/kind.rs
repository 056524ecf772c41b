//! A kind as the server knows it.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use lazaret_json::Value;
use lazaret_model::human_duration;
use lazaret_schema::{Schema, TypeId, builtin};

use crate::{Context, Release, Rules};

/// A name that is mostly known when this is compiled, and else comes with a definition.
pub type Name = Cow<'static, str>;

/// Cluster-wide or in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One name in the whole cluster.
    Cluster,
    /// One name in each namespace.
    Namespaced,
}

/// The verbs of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// Everything.
    All,
    /// Everything but the deletion of many at once.
    OneByOne,
    /// Created and answered, never stored: reviews.
    Create,
    /// Everything but create: its definition is being removed.
    Ending,
}

/// A version in which a kind is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// `v1`.
    pub version: Name,
    /// The type of the objects.
    pub shape: Shape,
    /// Served by default.
    pub by_default: bool,
    /// Not served at a release before this one; absent when it is older than any that can be had.
    pub since: Option<Release>,
    /// Not served while this feature is off.
    pub feature: Option<&'static str>,
}

/// Where the type of a kind's objects is found.
#[derive(Clone, Debug)]
pub enum Shape {
    /// By this name in the table of all built-in kinds.
    Builtin(&'static str),
    /// In a table that was made from a definition.
    Own(Arc<Schema>, TypeId),
}

impl Shape {
    /// The table and the type in it.
    #[must_use]
    pub fn find(&self) -> Option<(&Schema, TypeId)> {
        match self {
            Self::Builtin(name) => builtin().find(name).map(|id| (builtin(), id)),
            Self::Own(schema, id) => Some((schema, *id)),
        }
    }

    /// Its name among the built-in ones, which also have numbers in protobuf and keys for strategic merges.
    #[must_use]
    pub fn builtin_name(&self) -> Option<&'static str> {
        match self {
            Self::Builtin(name) => Some(name),
            Self::Own(..) => None,
        }
    }
}

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// `status`.
    pub name: &'static str,
    /// Group, version and kind of what it takes, where that is not the object itself.
    pub takes: Option<(&'static str, &'static str, &'static str)>,
    /// The verbs of the subresource.
    pub verbs: &'static [&'static str],
}

/// A kind and how it behaves.
pub struct Kind {
    /// The API group, empty for the core.
    pub group: Name,
    /// `ResourceClaim`.
    pub kind: Name,
    /// `ResourceClaimList`.
    pub list_kind: Name,
    /// `resourceclaims`.
    pub plural: Name,
    /// `resourceclaim`.
    pub singular: Name,
    /// Short names for people.
    pub short: Vec<Name>,
    /// `all` and the like.
    pub categories: Vec<Name>,
    /// Where names are unique.
    pub scope: Scope,
    /// In order of preference; the first is the stored form.
    pub versions: Vec<Served>,
    /// Parts with endpoints of their own.
    pub subresources: Vec<Subresource>,
    /// The verbs of the kind.
    pub verbs: Verbs,
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// May be written without saying which version is replaced.
    pub unconditional_update: bool,
    /// A PUT to a name that does not exist creates it.
    pub create_on_update: bool,
    /// A DELETE answers with the object, not with a Status.
    pub delete_returns_object: bool,
    /// The warning for a client that writes one: that nothing acts on it here.
    pub unheeded: Option<&'static str>,
    /// The rest.
    pub rules: RuleSet,
}

/// The rules of a kind: written here, or made from a definition.
#[derive(Clone)]
pub enum RuleSet {
    /// Of a built-in kind.
    Fixed(&'static dyn Rules),
    /// Of a defined one.
    Made(Arc<dyn Rules>),
}

impl std::fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Made(_) => "Made",
        })
    }
}

impl Deref for RuleSet {
    type Target = dyn Rules;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Fixed(rules) => *rules,
            Self::Made(rules) => &**rules,
        }
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.group, self.kind)
    }
}

impl Kind {
    /// `resourceclaims.resource.k8s.io`, or `pods` in the core.
    #[must_use]
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `ResourceClaim.resource.k8s.io`, or `Pod` in the core.
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `group/version`, or `version` in the core.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Whether it is this one; a defined kind may share a plural with a built-in one of another group.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group
    }

    /// The version objects are stored in.
    #[must_use]
    pub fn hub(&self) -> &Served {
        &self.versions[0]
    }

    /// Whether objects may be written in this version without saying which version is replaced.
    #[must_use]
    pub fn updates_unconditionally(&self, version: &str) -> bool {
        self.unconditional_update || self.rules.predates_conventions(version)
    }

    /// Whether a delete in this version answers with the object, not with a Status.
    #[must_use]
    pub fn returns_deleted(&self, version: &str) -> bool {
        self.delete_returns_object || self.rules.predates_conventions(version)
    }

    /// A version by name.
    #[must_use]
    pub fn served(&self, version: &str) -> Option<&Served> {
        self.versions.iter().find(|served| served.version == version)
    }

    /// A subresource by name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|known| known.name == name)
    }
}

/// A column of a table, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The name above the column.
    pub name: Name,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: Name,
    /// How the type is to be shown, or empty.
    pub format: Name,
    /// For people.
    pub description: Name,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i64,
}

impl From<&Column> for Heading {
    fn from(column: &Column) -> Self {
        let name = Name::Borrowed(column.name);
        let format = Name::Borrowed("");
        Self { description: name.clone(), name, kind: column.kind.into(), format, priority: column.priority }
    }
}

/// A column of a table of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `boolean`.
    pub kind: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i64,
}

impl Column {
    /// How old the object is.
    pub const AGE: Self = Self::text("Age");

    /// A column of text that is always shown.
    #[must_use]
    pub const fn text(name: &'static str) -> Self {
        Self { name, kind: "string", priority: 0 }
    }

    /// A column of text for those who want more.
    #[must_use]
    pub const fn wide(name: &'static str) -> Self {
        Self { name, kind: "string", priority: 1 }
    }

    /// A column of whole numbers.
    #[must_use]
    pub const fn number(name: &'static str) -> Self {
        Self { name, kind: "integer", priority: 0 }
    }
}

/// The cell of [`Column::AGE`].
#[must_use]
pub(crate) fn age(object: &Value, context: &Context<'_>) -> Value {
    age_of(object, context.now).into()
}

/// How old an object is, as kubectl writes it.
#[must_use]
pub fn age_of(object: &Value, now: jiff::Timestamp) -> String {
    object
        .pointer("/metadata/creationTimestamp")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map_or_else(|| "<unknown>".into(), |then| human_duration(now.as_second() - then.as_second()))
}

/// How long ago, as kubectl writes it: `5m`, `3d4h`; `<unknown>` without a time.
#[must_use]
pub(crate) fn since(time: Option<&str>, context: &Context<'_>) -> String {
    let Some(then) = time.and_then(|text| text.parse::<jiff::Timestamp>().ok()) else {
        return "<unknown>".into();
    };
    human_duration(context.now.as_second() - then.as_second())
}
