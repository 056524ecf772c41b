//! The service accounts as which controllers write to an API server elsewhere: one for each.

use lazaret_model::validate_dns_label;
use lazaret_runtime::Client;

/// Where the accounts are: a namespace, and the beginning of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerAccounts {
    namespace: String,
    prefix: String,
}

impl ControllerAccounts {
    /// Reads `NAMESPACE/PREFIX`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (namespace, prefix) = text.split_once('/').ok_or("write it as NAMESPACE/PREFIX")?;
        for part in [namespace, prefix] {
            validate_dns_label(part).map_err(|why| format!("{part:?}: {why}"))?;
        }
        Ok(Self { namespace: namespace.to_owned(), prefix: prefix.to_owned() })
    }

    fn user(&self, controller: &str) -> String {
        format!("system:serviceaccount:{}:{}-{controller}", self.namespace, self.prefix)
    }
}

/// The client, from which each controller gets one that writes as the controller's account, by impersonation. The same without accounts.
pub(crate) fn writing(client: &Client, accounts: Option<ControllerAccounts>) -> Client {
    let (own, client) = (client.clone(), client.clone());
    match accounts {
        Some(accounts) => client.with_identities(move |controller| own.acting_as(&accounts.user(controller))),
        None => client,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_has_an_account_of_its_own() {
        let accounts = ControllerAccounts::parse("lazaret-system/gpu-lazaret").unwrap();
        let user = "system:serviceaccount:lazaret-system:gpu-lazaret-device-health";
        assert_eq!(accounts.user("device-health"), user);
        for wrong in ["lazaret-system", "/lazaret", "lazaret-system/", "a/b/c", "A/b", "a:b/c"] {
            assert!(ControllerAccounts::parse(wrong).is_err(), "{wrong}");
        }
    }
}
