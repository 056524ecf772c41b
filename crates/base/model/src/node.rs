//! Nodes, and selectors of nodes.

use alloc::{collections::BTreeMap, vec::Vec};
use core::{cmp::Ordering, fmt};

use crate::{NameError, Taint, Text, validate_label_name, validate_label_value};

/// The fields of a node that matter to devices.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: BTreeMap<Text, Text>,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<Text>,
    /// Its taints, that of a cordoned node included.
    pub taints: Vec<Taint>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct NodeSelector {
    /// A term without requirements matches nothing.
    pub terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    /// On labels.
    pub match_expressions: Vec<Requirement>,
    /// On fields; only `metadata.name` exists.
    pub match_fields: Vec<Requirement>,
}

/// One requirement on a label or field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label or field.
    pub key: Text,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<Text>,
}

/// How a requirement compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// Absent or none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// A whole number greater than the one value.
    Gt,
    /// A whole number less than the one value.
    Lt,
    /// Not known: its evaluation is an error.
    Unknown(Text),
}

/// Why a selector cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    /// Which term.
    pub term: usize,
    /// The requirement's key.
    pub key: Text,
    /// The reason.
    pub problem: SelectorProblem,
}

/// The error in a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorProblem {
    /// An operator that does not exist, or not for fields.
    Operator(Text),
    /// The key is no label name.
    Key(NameError),
    /// A value is no label value.
    Value(NameError),
    /// The operator takes another number of values.
    ValueCount,
    /// The value to compare with is not a whole number of 64 bits.
    NotInteger(Text),
}

impl NodeSelector {
    /// Whether one of the terms matches. A term without requirements never does.
    ///
    /// # Errors
    /// When none matches and one is malformed: a malformed term is only in the way if no other decides.
    pub fn matches(&self, node: &Node) -> Result<bool, SelectorError> {
        let mut error = None;
        for (at, term) in self.terms.iter().enumerate() {
            match term.matches(node) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err((key, problem)) => {
                    error.get_or_insert(SelectorError { term: at, key, problem });
                }
            }
        }
        error.map_or(Ok(false), Err)
    }
}

type Malformed = (Text, SelectorProblem);

impl NodeSelectorTerm {
    /// Checks every requirement before it asks any: a malformed one spoils the term even if another fails.
    fn matches(&self, node: &Node) -> Result<bool, Malformed> {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return Ok(false);
        }
        for requirement in &self.match_expressions {
            requirement.check_label().map_err(|problem| (requirement.key.clone(), problem))?;
        }
        for requirement in &self.match_fields {
            requirement.check_field().map_err(|problem| (requirement.key.clone(), problem))?;
        }
        Ok(self.match_expressions.iter().all(|r| r.holds_for(node.labels.get(&r.key)))
            // A node without a name has no fields, and then fields are no restriction.
            && (node.name.is_empty() || self.match_fields.iter().all(|r| r.holds_for_field(&node.name))))
    }
}

impl Requirement {
    fn check_label(&self) -> Result<(), SelectorProblem> {
        validate_label_name(&self.key).map_err(SelectorProblem::Key)?;
        let counted = match &self.operator {
            Operator::In | Operator::NotIn => !self.values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => self.values.is_empty(),
            Operator::Gt | Operator::Lt => self.values.len() == 1,
            Operator::Unknown(name) => return Err(SelectorProblem::Operator(name.clone())),
        };
        if !counted {
            return Err(SelectorProblem::ValueCount);
        }
        if matches!(self.operator, Operator::Gt | Operator::Lt)
            && let Some(value) = self.values.iter().find(|value| value.parse::<i64>().is_err())
        {
            return Err(SelectorProblem::NotInteger(value.clone()));
        }
        self.values.iter().try_for_each(|value| validate_label_value(value)).map_err(SelectorProblem::Value)
    }

    fn check_field(&self) -> Result<(), SelectorProblem> {
        match &self.operator {
            Operator::In | Operator::NotIn if self.values.len() == 1 => Ok(()),
            Operator::In | Operator::NotIn => Err(SelectorProblem::ValueCount),
            Operator::Exists
            | Operator::DoesNotExist
            | Operator::Gt
            | Operator::Lt
            | Operator::Unknown(_) => Err(SelectorProblem::Operator(self.operator.name().into())),
        }
    }

    fn holds_for(&self, label: Option<&Text>) -> bool {
        let listed = || label.is_some_and(|label| self.values.contains(label));
        let compared = |wanted: Ordering| {
            let label: Option<i64> = label.and_then(|label| label.parse().ok());
            let limit: Option<i64> = self.values.first().and_then(|value| value.parse().ok());
            label.zip(limit).is_some_and(|(label, limit)| label.cmp(&limit) == wanted)
        };
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => compared(Ordering::Greater),
            Operator::Lt => compared(Ordering::Less),
            Operator::Unknown(_) => false,
        }
    }

    /// A field other than `metadata.name` is there, and empty.
    fn holds_for_field(&self, name: &Text) -> bool {
        let empty = Text::default();
        let field = if self.key == "metadata.name" { name } else { &empty };
        self.holds_for(Some(field))
    }
}

impl Operator {
    /// The operator of this name; any other name is kept as unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            other => Self::Unknown(other.into()),
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Unknown(name) => name,
        }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node selector term {}, key {:?}: ", self.term, self.key)?;
        match &self.problem {
            SelectorProblem::Operator(name) => write!(f, "operator {name:?} is not supported here"),
            SelectorProblem::Key(error) => write!(f, "bad key: {error}"),
            SelectorProblem::Value(error) => write!(f, "bad value: {error}"),
            SelectorProblem::ValueCount => f.write_str("the operator takes another number of values"),
            SelectorProblem::NotInteger(value) => write!(f, "{value:?} is not a whole number of 64 bits"),
        }
    }
}

impl core::error::Error for SelectorError {}

#[cfg(test)]
mod tests;
