//! Classes: which driver allocates, and with which parameters of the administrator.

use lazaret_json::Value;

use super::errors::add;
use crate::{Column, Context, Errors, Rules, kind::age, value::text};

/// Classes.
#[derive(Debug)]
pub(crate) struct Class;

impl Rules for Class {
    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(object, errors);
    }

    fn validate_update(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        validate(new, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Driver"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(object, "driverName").into(), age(object, context)]
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    match lazaret_api::read_classic_class(object.to_string().as_bytes()) {
        Some(class) => {
            let found = lazaret_classic::validate_class(&class);
            // The server has looked at the name itself.
            let found = found.into_iter().filter(|error| !error.path.starts_with("metadata."));
            add(errors, found.collect(), ToOwned::to_owned);
        }
        None => errors.invalid("", object.clone(), "cannot be read as a ResourceClass"),
    }
}
