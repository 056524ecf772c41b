//! The steps from `authorizer` to a decision.

use alloc::sync::Arc;

use super::{
    asked::Asked,
    context::Context,
    outcome::{Outcome, unfit},
    value::{Str, Value},
};
use crate::{
    authorization::{Check, ResourceCheck, ServiceAccount, Subject},
    check::decls::Ask,
    error::EvalError,
    ext::named_format::NamedFormat,
};

pub(crate) fn call<'v>(context: Context<'v>, ask: Ask, args: &[Value<'v>]) -> Outcome<'v> {
    let made = |asked: Asked| Ok(Value::Authorization(Arc::new(asked)));
    let refused = |why: &str| Err(EvalError::new(why));
    let [Value::Authorization(asked), args @ ..] = args else { return unfit(args) };
    match (ask, &**asked, args) {
        (Ask::Path, Asked::Authorizer(_), [Value::Text(path)]) if path.trim().is_empty() => {
            refused("path must not be empty")
        }
        (Ask::Path, Asked::Authorizer(account), [Value::Text(path)]) => {
            made(Asked::Path(account.clone(), path.to_text()))
        }
        (Ask::Group, Asked::Authorizer(account), [Value::Text(group)]) => {
            made(Asked::Group(account.clone(), group.to_text()))
        }
        (Ask::ServiceAccount, Asked::Authorizer(_), [Value::Text(namespace), Value::Text(name)]) => {
            service_account(namespace, name)
                .map(|account| Value::Authorization(Arc::new(Asked::Authorizer(Some(account)))))
        }
        (Ask::Resource, Asked::Group(..), [Value::Text(resource)]) if resource.trim().is_empty() => {
            refused("resource must not be empty")
        }
        (Ask::Resource, Asked::Group(account, group), [Value::Text(resource)]) => {
            let check = ResourceCheck {
                group: group.clone(),
                resource: resource.to_text(),
                ..ResourceCheck::default()
            };
            made(Asked::Resource(account.clone(), check))
        }
        (Ask::Check, _, [Value::Text(verb)]) => check(context, asked, verb),
        (_, Asked::Resource(account, known), [Value::Text(text)]) => {
            let mut check = known.clone();
            let field = match ask {
                Ask::Subresource => &mut check.subresource,
                Ask::Namespace => &mut check.namespace,
                Ask::Name => &mut check.name,
                Ask::FieldSelector => &mut check.field_selector,
                Ask::LabelSelector => &mut check.label_selector,
                _ => return Err(EvalError::no_such_overload()),
            };
            *field = text.to_text();
            made(Asked::Resource(account.clone(), check))
        }
        (_, Asked::Decision(decision), []) => match ask {
            Ask::Allowed => Ok(Value::Bool(decision.allowed)),
            Ask::Reason => Ok(Value::text(decision.reason.clone())),
            Ask::Errored => Ok(Value::Bool(!decision.error.is_empty())),
            Ask::Error => Ok(Value::text(decision.error.clone())),
            _ => Err(EvalError::no_such_overload()),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn check<'v>(context: Context<'v>, asked: &Asked, verb: &Str<'v>) -> Outcome<'v> {
    let (account, about) = match asked {
        Asked::Path(account, path) => (account, Subject::Path(path.clone())),
        Asked::Resource(account, check) => (account, Subject::Resource(check.clone())),
        Asked::Authorizer(_) | Asked::Group(..) | Asked::Decision(_) => {
            return Err(EvalError::no_such_overload());
        }
    };
    let Some(authorizer) = context.given.authorizer else {
        return Err(EvalError::new("there is no authorizer"));
    };
    let check = Check { account: account.clone(), about, verb: verb.to_text() };
    Ok(Value::Authorization(Arc::new(Asked::Decision(authorizer.decide(&check)))))
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
