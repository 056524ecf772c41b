//! The schema of one version of a definition, ready for objects.

use std::sync::Arc;

use lazaret_fields::Errors;
use lazaret_json::Value;
use lazaret_schema::{Finding, Schema, TypeId};

use crate::{
    fill, lists::check_unique, rule_tree::RuleTree, shape::shape, structural::Structural, validate::validate,
};

/// The schema of one version of a definition.
#[derive(Debug)]
pub struct DefinedSchema {
    structural: Structural,
    /// Rules that the schema brings.
    rule_tree: Option<RuleTree>,
    /// As it was written, for clients that ask what a field is for.
    document: Value,
}

impl DefinedSchema {
    /// Reads an `openAPIV3Schema` that [`check_schema`](crate::check_schema) has accepted.
    #[must_use]
    pub fn read(document: Value) -> Self {
        let (structural, rule_tree) = (Structural::read(&document), RuleTree::read(&document, true));
        Self { structural, rule_tree, document }
    }

    /// The schema as its author wrote it.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The type of the objects, metadata included, in a table of its own.
    #[must_use]
    pub fn shape(&self) -> (Arc<Schema>, TypeId) {
        shape(&self.structural)
    }

    /// Removes the fields that the schema does not know, and names them.
    pub fn prune(&self, object: &mut Value) -> Vec<Finding> {
        fill::prune(&self.structural, object)
    }

    /// Removes `null` where there can be none and no default stands in for it.
    pub fn drop_nulls(&self, object: &mut Value) {
        fill::drop_nulls(&self.structural, object);
    }

    /// Sets the defaults of absent fields.
    pub fn fill_defaults(&self, object: &mut Value) {
        fill::fill_defaults(&self.structural, object);
    }

    /// Validates a new object, or a changed one against `old`: what was wrong before is not refused again.
    pub fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Errors) {
        validate(&self.structural, new, old, errors);
        // Lists that had an item twice before may keep it.
        let mut before = Errors::new();
        old.into_iter().for_each(|old| check_unique(&self.structural, old, &mut String::new(), &mut before));
        if before.is_empty() {
            check_unique(&self.structural, new, &mut String::new(), errors);
        }
    }

    /// Evaluates the rules of the schema, unless there are errors: rules may count on an object that is well formed.
    pub fn check_rules(&self, new: &Value, old: Option<&Value>, errors: &mut Errors) {
        if let Some(rule_tree) = self.rule_tree.as_ref().filter(|_| errors.is_empty()) {
            rule_tree.check(&self.structural, new, old, errors);
        }
    }
}
