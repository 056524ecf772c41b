//! The document of version 2 as it was made last.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use crate::definitions::Customs;

/// The document as it was made last.
#[derive(Default)]
pub(crate) struct Cache {
    made: Mutex<Option<CachedDocument>>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

/// A document in both of its forms.
#[derive(Clone)]
pub(super) struct CachedDocument {
    /// The definitions that it was made from.
    of: Arc<Customs>,
    pub(super) json: Bytes,
    pub(super) protobuf: Bytes,
}

impl Cache {
    /// The document of these definitions, as JSON and as protobuf. One request at a time has it made; the others wait for it.
    pub(super) fn get(&self, of: Arc<Customs>, make: impl FnOnce() -> (Bytes, Bytes)) -> CachedDocument {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| Arc::ptr_eq(&made.of, &of)) {
            return made.clone();
        }
        let (json, protobuf) = make();
        made.insert(CachedDocument { of, json, protobuf }).clone()
    }
}
