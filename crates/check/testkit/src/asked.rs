//! Requests of controllers while tests ran: the evidence that no role has more than is used.

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write as _,
    sync::{Mutex, PoisonError},
};

use lazaret_server::{Access, Authorizer, ObjectStore, Rbac, User};

/// The file that each request of a controller is added to, once, where this variable names one.
const FILE: &str = "LAZARET_ROLES_ASKED";
/// The users that controllers are: beside this server, and with the accounts of the chart.
const USERS: [&str; 2] = ["system:lazaret:", "system:serviceaccount:lazaret-system:lazaret-"];

/// Roles; what controllers ask is written down where that is wanted. Then the rules of a user are not listed: no test of controllers asks for them.
pub(crate) fn authorizer() -> Box<dyn Authorizer> {
    let roles = Rbac::default();
    if env::var_os(FILE).is_some() { Box::new(Recording(roles)) } else { Box::new(roles) }
}

#[derive(Debug)]
struct Recording(Rbac);

impl Authorizer for Recording {
    fn access(&self, stored: &ObjectStore, user: &User, access: Access<'_>) -> Result<(), String> {
        if let Some(name) = USERS.iter().find_map(|prefix| user.name.strip_prefix(prefix)) {
            let group = if access.group.is_empty() { "core" } else { access.group };
            let slash = if access.subresource.is_empty() { "" } else { "/" };
            let Access { verb, resource, subresource, .. } = access;
            note(format!("{name} {verb} {group} {resource}{slash}{subresource}"));
        }
        self.0.access(stored, user, access)
    }

    fn path(&self, stored: &ObjectStore, user: &User, verb: &str, path: &str) -> Result<(), String> {
        self.0.path(stored, user, verb, path)
    }
}

fn note(line: String) {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = env::var_os(FILE)
        && !known.contains(&line)
        && let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path)
    {
        // A line that is lost is asked for again in the next process.
        let _ = file.write_all(format!("{line}\n").as_bytes());
        known.insert(line);
    }
}
