//! The consequences of a change of a definition: its names, its conditions, its removal.

use std::sync::Arc;

use lazaret_json::Value;
use lazaret_kinds::{CLEANUP_FINALIZER, Kind, User, Verbs, removal_progress, settled, stored_kind};
use lazaret_storage::{Item, Op, RangeOptions, TxnError};

use super::{delete, finish::storage};
use crate::{
    ApiError, Server,
    call::Call,
    clock,
    definitions::PREFIX,
    kind_ref::KindRef,
    negotiate::Form,
    object,
    query::Query,
    request::{Target, Verb},
    request_permits::RequestPermits,
};

/// Rounds with writes of others in between before settling gives up; the other writer then settles.
const ROUNDS_MAX: usize = 64;

/// Brings all definitions to where they should be: names, conditions, and the removal of those that were deleted. Repeating it changes
/// nothing.
pub(crate) async fn settle(server: &Server) -> Result<(), ApiError> {
    for _ in 0..ROUNDS_MAX {
        let definitions = stored(server)?;
        let values: Vec<Value> = definitions.iter().map(|(_, value)| value.clone()).collect();
        let mut ops = Vec::new();
        for (at, wanted) in settled(&values, &timestamp()) {
            let item = &definitions[at].0;
            ops.push(Op::update(item.key.clone(), item.modified, object::encode(&wanted)?));
        }
        if !ops.is_empty() {
            match server.commit_own(ops).await {
                Ok(_) | Err(TxnError::Conflict { .. }) => continue,
                Err(error) => return Err(storage(&error)),
            }
        }
        let mut moved = false;
        for (item, definition) in definitions.iter().filter(|(_, value)| object::is_deleting(value)) {
            moved |= remove(server, item, definition).await?;
        }
        // A removed definition may have left names for others.
        if !moved {
            return Ok(());
        }
    }
    Ok(())
}

/// All definitions, the oldest first.
fn stored(server: &Server) -> Result<Vec<(Arc<Item>, Value)>, ApiError> {
    let range =
        server.store().range(PREFIX.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
    let mut items = range.items;
    items.sort_by_key(|item| item.created);
    Ok(items.into_iter().map(|item| (item.clone(), object::decode(&item.value))).collect())
}

/// Deletes the objects of a definition; when the last is gone, the definition goes too. Returns whether it changed.
async fn remove(server: &Server, item: &Item, definition: &Value) -> Result<bool, ApiError> {
    if !object::finalizers(definition).iter().any(|name| name == CLEANUP_FINALIZER) {
        return Ok(false);
    }
    let left = match stored_kind(definition) {
        Some(kind) => delete_all(server, Arc::new(kind)).await?,
        None => 0,
    };
    let mut new = definition.clone();
    let op = if left > 0 {
        removal_progress(&mut new, left, &timestamp());
        Op::update(item.key.clone(), item.modified, object::encode(&new)?)
    } else {
        let finalizers: Vec<String> =
            object::finalizers(definition).into_iter().filter(|name| name != CLEANUP_FINALIZER).collect();
        if finalizers.is_empty() {
            Op::delete(item.key.clone(), item.modified)
        } else {
            object::meta_mut(&mut new).insert("finalizers", finalizers.into());
            Op::update(item.key.clone(), item.modified, object::encode(&new)?)
        }
    };
    if left > 0 && new == *definition {
        return Ok(false);
    }
    match server.commit_own(vec![op]).await {
        Ok(_) | Err(TxnError::Conflict { .. }) => Ok(true),
        Err(error) => Err(storage(&error)),
    }
}

/// Deletes every object of a kind; returns how many linger because of their finalizers.
async fn delete_all(server: &Server, kind: Arc<Kind>) -> Result<usize, ApiError> {
    debug_assert_eq!(kind.verbs, Verbs::Ending);
    let prefix = object::key(&kind, "", "");
    let user = User { name: "system:apiserver".into(), ..User::default() };
    let range =
        server.store().range(prefix.as_bytes(), &RangeOptions::default()).map_err(ApiError::internal)?;
    for item in &range.items {
        let stored = object::decode(&item.value);
        let target = Target {
            group: kind.group.to_string(),
            version: kind.hub().version.to_string(),
            namespace: object::meta(&stored, "namespace").to_owned(),
            plural: kind.plural.to_string(),
            name: object::meta(&stored, "name").to_owned(),
            subresource: String::new(),
        };
        let call = Call {
            server,
            user: &user,
            verb: Verb::Delete,
            served: kind.hub().clone(),
            kind: KindRef::Custom(kind.clone()),
            target,
            query: Query::default(),
            form: Form::Json,
            manager: "kube-apiserver".into(),
            content_type: None,
            held: RequestPermits::default(),
        };
        match delete::remove(&call, &call.target.name, &delete::DeleteOptions::default()).await {
            Ok(_) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(server.store().count(prefix.as_bytes()))
}

fn timestamp() -> String {
    jiff::Timestamp::from_second(clock::now().as_second()).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
