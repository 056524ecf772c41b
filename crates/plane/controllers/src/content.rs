//! All that is in a namespace, of every kind that the server has: the last look before a namespace goes, past every watch.

use lazaret_runtime::{Call, CallError, Client};
use serde::Deserialize;

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: GroupVersion,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Served>,
}

#[derive(Deserialize)]
struct Served {
    name: String,
    namespaced: bool,
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<serde::de::IgnoredAny>,
}

/// Deletes all that is in a namespace. Whether nothing is left: finalizers may hold some for a while.
pub(crate) async fn clear(client: &Client, namespace: &str) -> Result<bool, CallError> {
    let mut empty = true;
    for (root, plural) in namespaced(client).await? {
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        if is_empty(client, &path).await? {
            continue;
        }
        client.send(Call::delete_at(path.clone())).await?;
        empty &= is_empty(client, &path).await?;
    }
    Ok(empty)
}

/// The collections of all kinds that are in namespaces and can be listed and deleted: their version's path and their name, each in the first
/// version that has it.
async fn namespaced(client: &Client) -> Result<Vec<(String, String)>, CallError> {
    let mut found: Vec<(String, String)> = Vec::new();
    // A server without groups is none: a namespace is not empty because nobody says what could be in it.
    let Some(groups) = read::<Groups>(client, "/apis").await? else {
        return Err(CallError::Unavailable("the API server does not say which groups it serves".into()));
    };
    let core = vec!["/api/v1".to_owned()];
    let preferred_first = |group: Group| {
        let first = group.preferred_version.group_version;
        let others = group.versions.into_iter().map(|version| version.group_version);
        let others: Vec<String> = others.filter(|version| *version != first).collect();
        [first].into_iter().chain(others).map(|version| format!("/apis/{version}")).collect()
    };
    for roots in std::iter::once(core).chain(groups.groups.into_iter().map(preferred_first)) {
        let begin = found.len();
        for root in roots {
            let Some(served) = read::<Resources>(client, &root).await? else { continue };
            for Served { name, namespaced, verbs } in served.resources {
                let usable = ["delete", "list"].iter().all(|verb| verbs.iter().any(|known| known == verb));
                let known = found[begin..].iter().any(|(_, plural)| *plural == name);
                if namespaced && usable && !known {
                    found.push((root.clone(), name));
                }
            }
        }
    }
    Ok(found)
}

async fn is_empty(client: &Client, path: &str) -> Result<bool, CallError> {
    Ok(read::<List>(client, &format!("{path}?limit=1")).await?.is_none_or(|list| list.items.is_empty()))
}

/// Reads the object at a path; `None` when it is not served, or was just removed.
async fn read<T: for<'de> Deserialize<'de>>(client: &Client, path: &str) -> Result<Option<T>, CallError> {
    match client.send(Call::get_at(path.to_owned())).await {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| CallError::Unavailable(error.to_string())),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
