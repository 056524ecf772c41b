//! Kinds that definitions in the store bring, and what must follow a change of a definition: its names, its conditions, its removal.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_json::Value;
use lazaret_kinds::{
    CLEANUP_FINALIZER, Kind, Name, User, Verbs, custom_kinds, removal_progress, settled, stored_kind,
};
use lazaret_storage::{Item, Op, RangeOptions, TxnError};

use crate::{
    ApiError, Server,
    call::Call,
    clock,
    derived::Derived,
    held::Held,
    kind_ref::KindRef,
    negotiate::Form,
    object,
    query::Query,
    request::{Target, Verb},
    verbs,
};

/// Where definitions are stored.
const PREFIX: &str = "/apiextensions.k8s.io/customresourcedefinitions/";
/// Rounds in which others wrote in between before settling gives up; whoever wrote then settles.
const ROUNDS_MAX: usize = 64;

/// All kinds that definitions bring, as the store has them now.
#[derive(Debug)]
pub(crate) struct Definitions {
    kinds: Derived<Customs>,
}

/// Kinds by `group/version/plural`.
#[derive(Debug, Default)]
pub(crate) struct Customs {
    by_path: BTreeMap<String, Arc<Kind>>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { kinds: Derived::new(PREFIX, Customs::new) }
    }
}

impl Definitions {
    pub(crate) fn get(&self, server: &Server) -> Arc<Customs> {
        self.kinds.get(server.store())
    }
}

impl Customs {
    fn new(items: &[Arc<Item>]) -> Self {
        let mut by_path = BTreeMap::new();
        for kind in items.iter().flat_map(|item| custom_kinds(&object::decode(&item.value))) {
            by_path.insert(path(&kind.group, &kind.hub().version, &kind.plural), Arc::new(kind));
        }
        Self { by_path }
    }

    pub(crate) fn find(&self, target: &Target) -> Option<KindRef> {
        let path = path(&target.group, &target.version, &target.plural);
        self.by_path.get(&path).map(|kind| KindRef::Custom(kind.clone()))
    }

    /// All versions in which a kind is served.
    pub(crate) fn versions(&self, kind: &Kind) -> Vec<Name> {
        let same = |other: &&Arc<Kind>| other.group == kind.group && other.plural == kind.plural;
        self.by_path.values().filter(same).map(|other| other.hub().version.clone()).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = KindRef> {
        self.by_path.values().map(|kind| KindRef::Custom(kind.clone()))
    }
}

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}

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
                Err(error) => return Err(verbs::storage(&error)),
            }
        }
        let mut moved = false;
        for (item, definition) in definitions.iter().filter(|(_, value)| object::is_deleting(value)) {
            moved |= remove(server, item, definition).await?;
        }
        // What went may have left names for others.
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
        Err(error) => Err(verbs::storage(&error)),
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
            held: Held::default(),
        };
        match verbs::delete_now(&call).await {
            Ok(()) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(server.store().count(prefix.as_bytes()))
}

fn timestamp() -> String {
    jiff::Timestamp::from_second(clock::now().as_second()).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
