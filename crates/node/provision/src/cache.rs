//! Config maps and secrets, read once for many pods.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::time::Instant;

use crate::{Objects, clock};

/// Objects of one kind that are kept. A node has about a hundred pods, with a few objects each.
const OBJECTS_MAX: usize = 1024;
/// Bytes of one kind that are kept: an object has at most about 1 MiB.
const BYTES_MAX: usize = 64 << 20;
/// An answer that takes longer is not waited for; the pod is tried again.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// An object that nothing asked for in this time is of no pod any more: volumes are brought up to date every minute.
const UNUSED_MAX: Duration = Duration::from_secs(150);

/// How old an object may be that a new pod is given: pods that start together share one read.
pub(crate) const AGE_MAX_NEW: Duration = Duration::from_secs(1);
/// How old an object may be when volumes are brought up to date, which is done every minute.
pub(crate) const AGE_MAX_REFRESH: Duration = Duration::from_secs(45);

/// An object of the API that pods name.
pub(crate) trait CachedObject: Send + Sync + Sized {
    fn bytes(&self) -> usize;
    /// Whether it never changes again.
    fn is_immutable(&self) -> bool;
    fn read(
        objects: &dyn Objects,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Self>, String>> + Send;
}

impl CachedObject for ConfigMap {
    fn bytes(&self) -> usize {
        let text = self.data.iter().flatten().map(|(key, value)| key.len() + value.len());
        let binary = self.binary_data.iter().flatten().map(|(key, value)| key.len() + value.0.len());
        text.chain(binary).sum()
    }

    fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or(false)
    }

    async fn read(objects: &dyn Objects, namespace: &str, name: &str) -> Result<Option<Self>, String> {
        objects.config_map(namespace, name).await
    }
}

impl CachedObject for Secret {
    fn bytes(&self) -> usize {
        self.data.iter().flatten().map(|(key, value)| key.len() + value.0.len()).sum()
    }

    fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or(false)
    }

    async fn read(objects: &dyn Objects, namespace: &str, name: &str) -> Result<Option<Self>, String> {
        objects.secret(namespace, name).await
    }
}

type Key = (String, String);

/// An object as it was when it was read; `None` did not exist.
struct Read<T> {
    at: Instant,
    object: Option<Arc<T>>,
}

/// The place of one object. A caller that finds it locked waits for the read in flight.
type Slot<T> = Arc<tokio::sync::Mutex<Option<Read<T>>>>;

struct CacheEntry<T> {
    slot: Slot<T>,
    bytes: usize,
    /// Greater is later.
    last_use: u64,
    used_at: Instant,
}

/// Objects of one kind.
pub(crate) struct Cache<T> {
    objects: Arc<dyn Objects>,
    held: Mutex<(BTreeMap<Key, CacheEntry<T>>, u64)>,
}

/// Without the objects, which may be secrets.
impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl<T: CachedObject> Cache<T> {
    pub(crate) fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, held: Mutex::new((BTreeMap::new(), 0)) }
    }

    /// An object that is not older than this. An object that never changes may be as old as it likes, unless it is for a new pod.
    pub(crate) async fn get(
        &self,
        namespace: &str,
        name: &str,
        age_max: Duration,
    ) -> Result<Option<Arc<T>>, String> {
        let key = (namespace.to_owned(), name.to_owned());
        let slot = self.slot(&key);
        let mut held = slot.lock().await;
        if let Some(read) = held.as_ref() {
            let is_final = age_max >= AGE_MAX_REFRESH
                && read.object.as_ref().is_some_and(|object| object.is_immutable());
            if is_final || read.at.elapsed() < age_max {
                return Ok(read.object.clone());
            }
        }
        let at = clock::now();
        let read = T::read(self.objects.as_ref(), namespace, name);
        let object = match tokio::time::timeout(READ_TIME_MAX, read).await {
            Ok(object) => object?.map(Arc::new),
            Err(_) => return Err(format!("reading {name} took longer than {} s", READ_TIME_MAX.as_secs())),
        };
        self.account(&key, object.as_ref().map_or(0, |object| object.bytes()));
        *held = Some(Read { at, object: object.clone() });
        Ok(object)
    }

    /// Forgets objects that no pod uses any more.
    pub(crate) fn forget_unused(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.0.retain(|_, entry| entry.used_at.elapsed() < UNUSED_MAX);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).0.len()
    }

    fn slot(&self, key: &Key) -> Slot<T> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, uses) = &mut *held;
        *uses += 1;
        if !held.contains_key(key) && held.len() >= OBJECTS_MAX {
            drop_oldest(held);
        }
        let now = clock::now();
        let entry = held.entry(key.clone()).or_insert_with(|| CacheEntry {
            slot: Arc::default(),
            bytes: 0,
            last_use: 0,
            used_at: now,
        });
        (entry.last_use, entry.used_at) = (*uses, now);
        Arc::clone(&entry.slot)
    }

    fn account(&self, key: &Key, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, _) = &mut *held;
        if let Some(entry) = held.get_mut(key) {
            entry.bytes = bytes;
        }
        while held.len() > 1 && held.values().map(|entry| entry.bytes).sum::<usize>() > BYTES_MAX {
            drop_oldest(held);
        }
    }
}

fn drop_oldest<T>(held: &mut BTreeMap<Key, CacheEntry<T>>) {
    let oldest = held.iter().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        held.remove(&oldest);
    }
}
