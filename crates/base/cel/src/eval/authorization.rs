//! The steps from `authorizer` to a decision.

use alloc::sync::Arc;

use super::{
    authorizer_check::AuthorizerCheck,
    context::Context,
    outcome::{Outcome, unfit},
    value::{Str, Value},
};
use crate::{
    authorization::{Check, ResourceCheck, ServiceAccount, Subject},
    check::decls::AuthorizerStep,
    error::EvalError,
    ext::named_format::NamedFormat,
};

pub(crate) fn call<'v>(context: Context<'v>, ask: AuthorizerStep, args: &[Value<'v>]) -> Outcome<'v> {
    let made = |authorizer_check: AuthorizerCheck| Ok(Value::Authorization(Arc::new(authorizer_check)));
    let refused = |why: &str| Err(EvalError::new(why));
    let [Value::Authorization(authorizer_check), args @ ..] = args else { return unfit(args) };
    match (ask, &**authorizer_check, args) {
        (AuthorizerStep::Path, AuthorizerCheck::Authorizer(_), [Value::Text(path)])
            if path.trim().is_empty() =>
        {
            refused("path must not be empty")
        }
        (AuthorizerStep::Path, AuthorizerCheck::Authorizer(account), [Value::Text(path)]) => {
            made(AuthorizerCheck::Path(account.clone(), path.to_text()))
        }
        (AuthorizerStep::Group, AuthorizerCheck::Authorizer(account), [Value::Text(group)]) => {
            made(AuthorizerCheck::Group(account.clone(), group.to_text()))
        }
        (
            AuthorizerStep::ServiceAccount,
            AuthorizerCheck::Authorizer(_),
            [Value::Text(namespace), Value::Text(name)],
        ) => service_account(namespace, name)
            .map(|account| Value::Authorization(Arc::new(AuthorizerCheck::Authorizer(Some(account))))),
        (AuthorizerStep::Resource, AuthorizerCheck::Group(..), [Value::Text(resource)])
            if resource.trim().is_empty() =>
        {
            refused("resource must not be empty")
        }
        (AuthorizerStep::Resource, AuthorizerCheck::Group(account, group), [Value::Text(resource)]) => {
            let check = ResourceCheck {
                group: group.clone(),
                resource: resource.to_text(),
                ..ResourceCheck::default()
            };
            made(AuthorizerCheck::Resource(account.clone(), check))
        }
        (AuthorizerStep::Check, _, [Value::Text(verb)]) => check(context, authorizer_check, verb),
        (_, AuthorizerCheck::Resource(account, known), [Value::Text(text)]) => {
            let mut check = known.clone();
            let field = match ask {
                AuthorizerStep::Subresource => &mut check.subresource,
                AuthorizerStep::Namespace => &mut check.namespace,
                AuthorizerStep::Name => &mut check.name,
                AuthorizerStep::FieldSelector => &mut check.field_selector,
                AuthorizerStep::LabelSelector => &mut check.label_selector,
                _ => return Err(EvalError::no_such_overload()),
            };
            *field = text.to_text();
            made(AuthorizerCheck::Resource(account.clone(), check))
        }
        (_, AuthorizerCheck::Decision(decision), []) => match ask {
            AuthorizerStep::Allowed => Ok(Value::Bool(decision.allowed)),
            AuthorizerStep::Reason => Ok(Value::text(decision.reason.clone())),
            AuthorizerStep::Errored => Ok(Value::Bool(!decision.error.is_empty())),
            AuthorizerStep::Error => Ok(Value::text(decision.error.clone())),
            _ => Err(EvalError::no_such_overload()),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn check<'v>(context: Context<'v>, authorizer_check: &AuthorizerCheck, verb: &Str<'v>) -> Outcome<'v> {
    let (account, about) = match authorizer_check {
        AuthorizerCheck::Path(account, path) => (account, Subject::Path(path.clone())),
        AuthorizerCheck::Resource(account, check) => (account, Subject::Resource(check.clone())),
        AuthorizerCheck::Authorizer(_) | AuthorizerCheck::Group(..) | AuthorizerCheck::Decision(_) => {
            return Err(EvalError::no_such_overload());
        }
    };
    let Some(authorizer) = context.given.authorizer else {
        return Err(EvalError::new("there is no authorizer"));
    };
    let check = Check { account: account.clone(), about, verb: verb.to_text() };
    Ok(Value::Authorization(Arc::new(AuthorizerCheck::Decision(authorizer.decide(&check)))))
}

fn service_account(namespace: &Str<'_>, name: &Str<'_>) -> Result<ServiceAccount, EvalError> {
    if !NamedFormat::Dns1123Subdomain.validate(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !NamedFormat::Dns1123Label.validate(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    Ok(ServiceAccount { namespace: namespace.to_text(), name: name.to_text() })
}
