//! Service accounts.

use lazaret_json::{Value, json};

use crate::{
    Context, Rules,
    value::{is_filled, list_mut, text},
};

/// The identity of pods.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Rules for ServiceAccount {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        keep_names_of_secrets(object);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, _context: &Context<'_>) {
        keep_names_of_secrets(new);
    }
}

/// A secret is one of the account's namespace: only its name says which.
fn keep_names_of_secrets(account: &mut Value) {
    if is_filled(account, "secrets") {
        for secret in list_mut(account, "secrets") {
            let name = text(secret, "name").to_owned();
            *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        }
    }
}
