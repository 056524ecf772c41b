//! Impersonation of other users, where that is allowed.

use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use lazaret_kinds::{Access, User};
use percent_encoding::percent_decode_str;

use super::{attributes::authorize, identity::authenticated};
use crate::{ApiError, Server};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user that the headers name, if `user` may act as such; `user` where they name none.
pub(crate) fn act_as(server: &Server, headers: &HeaderMap, user: Arc<User>) -> Result<Arc<User>, ApiError> {
    // Most requests impersonate no other user.
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(user);
    }
    let wanted = read(headers)?;
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let access =
            Access { verb: "impersonate", group, resource, subresource, namespace, name, fields: &[] };
        authorize(server, &user, access)
    };
    match service_account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &wanted.name)?,
    }
    wanted.groups.iter().try_for_each(|group| may("", "groups", "", "", group))?;
    if !wanted.uid.is_empty() {
        may("authentication.k8s.io", "uids", "", "", &wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        values.iter().try_for_each(|value| may("authentication.k8s.io", "userextras", key, "", value))?;
    }
    Ok(Arc::new(with_own_groups(wanted)))
}

/// The impersonated user. A header that cannot be parsed must not leave the client with more rights than it meant.
fn read(headers: &HeaderMap) -> Result<User, ApiError> {
    let text = |name: &str| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().map(str::to_owned));
        values.collect::<Result<Vec<_>, _>>().map_err(|_| {
            ApiError::bad_request(format!("header {name}: only printable ASCII can be read; encode the rest"))
        })
    };
    let name = text(USER)?.into_iter().next().filter(|name| !name.is_empty()).ok_or_else(|| {
        ApiError::bad_request("groups, a uid or extra values can be impersonated only together with a user")
    })?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
            extra.insert(key, text(header.as_str())?);
        }
    }
    Ok(User { name, groups: text(GROUP)?, uid: text(UID)?.into_iter().next().unwrap_or_default(), extra })
}

/// Namespace and name of a service account's user. Any other name is a user like any other, and must be allowed as such.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_name = |kind: &str, name: &str| {
        lazaret_kinds::find("", kind).is_some_and(|kind| lazaret_kinds::check_name(kind, name).is_ok())
    };
    (is_name("namespaces", namespace) && is_name("serviceaccounts", name)).then_some((namespace, name))
}

/// Groups that come with the name, unless others were asked for.
fn with_own_groups(mut user: User) -> User {
    if user.name == "system:anonymous" {
        if !user.groups.iter().any(|group| group == UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.into());
        }
        return user;
    }
    if let (true, Some((namespace, _))) = (user.groups.is_empty(), service_account(&user.name)) {
        let own = format!("system:serviceaccounts:{namespace}");
        user.groups = vec!["system:serviceaccounts".into(), own];
    }
    if user.groups.iter().any(|group| group == UNAUTHENTICATED) { user } else { authenticated(user) }
}
