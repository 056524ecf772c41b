//! The attributes of a request that are authorized. No other code derives them.

use lazaret_kinds::{Access, User};

use crate::{
    ApiError, Server,
    call::Call,
    request::{Target, Verb},
    selector::Selector,
};

impl Call<'_> {
    /// The attributes of `verb` on the object called `name`.
    pub(crate) fn access<'a>(&'a self, verb: &'a str, name: &'a str) -> Access<'a> {
        Access { verb, name, ..of_target(&self.target, verb) }
    }

    /// Authorizes `verb`, which can differ from the verb of the request: some updates create.
    pub(crate) fn authorize(&self, verb: Verb) -> Result<(), ApiError> {
        let selected = self.selected(verb);
        let fields = selected.as_ref().map_or(&[][..], Selector::fields);
        let name = selected.as_ref().and_then(|selected| self.selected_name(verb, selected));
        let access = self.access(verb.name(), name.unwrap_or(&self.target.name));
        authorize(self.server, self.user, Access { fields, ..access })
    }

    /// The field selector of this call. A selector that cannot be parsed restricts nothing here and is refused later.
    fn selected(&self, verb: Verb) -> Option<Selector> {
        let text = self.query.get("fieldSelector")?;
        let restricts = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        restricts.then(|| Selector::parse(&self.kind, None, Some(text)).ok()).flatten()
    }

    /// The name that the field selector of a list or watch requires. For other verbs the selector does not limit what is carried out by
    /// name, so it does not count.
    fn selected_name<'a>(&self, verb: Verb, selected: &'a Selector) -> Option<&'a str> {
        let shows = matches!(verb, Verb::List | Verb::Watch) && self.target.name.is_empty();
        shows.then(|| selected.exact_name()).flatten()
    }
}

/// Authorizes a request for a resource that is not served. Without permission the answer is 403, so that 404 does not reveal which kinds
/// exist.
pub(crate) fn authorize_unknown(
    server: &Server,
    user: &User,
    target: &Target,
    verb: Verb,
) -> Result<(), ApiError> {
    authorize(server, user, of_target(target, verb.name()))
}

fn of_target<'a>(target: &'a Target, verb: &'a str) -> Access<'a> {
    // As in Kubernetes, a namespace object is in its own namespace: a Role there can allow reading it.
    let itself = target.group.is_empty() && target.plural == "namespaces";
    Access {
        verb,
        group: &target.group,
        resource: &target.plural,
        subresource: &target.subresource,
        namespace: if itself { &target.name } else { &target.namespace },
        name: &target.name,
        fields: &[],
    }
}

/// Asks the authorizer. A refusal has Kubernetes' text.
pub(super) fn authorize(server: &Server, user: &User, access: Access<'_>) -> Result<(), ApiError> {
    server.may(user, access).map_err(|why| {
        let resource = match access.subresource {
            "" => access.resource.to_owned(),
            subresource => format!("{}/{subresource}", access.resource),
        };
        let place = match access.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let text = format!(
            "User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
            user.name, access.verb, access.group
        );
        let text = if why.is_empty() { text } else { format!("{text}: {why}") };
        ApiError::forbidden_access(access, &text)
    })
}
