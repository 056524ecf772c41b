//! The users as which the controllers of this server work.

/// As who they read, and the beginning of the names as which each of them writes.
const CONTROL_PLANE: &str = "system:lazaret";
/// The controller that makes rules of policies.
const COMPILER: &str = "device-taint-policies";
/// The controller that makes rules and policies of incidents.
const HEALTH: &str = "device-health";

/// The name of the user as which a controller writes; without a name, of the one that reads for all.
#[must_use]
pub fn controller_user_name(controller: &str) -> String {
    if controller.is_empty() { CONTROL_PLANE.to_owned() } else { format!("{CONTROL_PLANE}:{controller}") }
}

/// The name of the controller that this user is, empty for the one that reads for all; `None` for other users.
#[must_use]
pub fn controller_name(user: &str) -> Option<&str> {
    match user.strip_prefix(CONTROL_PLANE)? {
        "" => Some(""),
        rest => rest.strip_prefix(':').filter(|name| !name.is_empty()),
    }
}

/// Whether a user compiles policies to rules.
pub(crate) fn compiles_policies(user: &str) -> bool {
    controller_name(user) == Some(COMPILER)
}

/// Whether a user makes rules and policies that the author of a health policy wants.
pub(crate) fn makes_rules_for_policies(user: &str) -> bool {
    controller_name(user) == Some(HEALTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_controller_by_its_whole_name() {
        for (user, controller) in [
            ("system:lazaret", Some("")),
            ("system:lazaret:deployment", Some("deployment")),
            ("system:lazaret:", None),
            ("system:lazaretx", None),
            ("system:lazarex:deployment", None),
            ("lazaret", None),
        ] {
            assert_eq!(controller_name(user), controller, "{user}");
            if let Some(name) = controller {
                assert_eq!(controller_user_name(name), user);
            }
        }
        assert!(compiles_policies("system:lazaret:device-taint-policies"));
        assert!(!compiles_policies("system:lazaret") && !compiles_policies("system:lazaret:device-health"));
    }
}
