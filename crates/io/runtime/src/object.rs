//! An object as it came over the wire, read at most once for everybody.

use std::{
    any::Any,
    borrow::Cow,
    collections::VecDeque,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use lazaret_api::{ClaimTemplate, FieldError, Object as Read, PodOutline, kept_in_words, what_is_known};
use lazaret_model::{
    DeviceClass, DeviceTaintRule, Node, ObjectKey, Pod, PodGroup, ResourceClaim, ResourceSlice,
    ResourceSlicePatch, Text, Uid,
};
use prometheus_client::metrics::gauge::Gauge;
use serde::{
    Deserialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;
use tracing::error;

use crate::{
    CallError, PODS, Resource,
    beginning::Beginning,
    reading::{Reading, Unreadable},
    share::Shared,
    standing::Standing,
    templates::PodTemplates,
};

/// A change of one resource, as an agent receives it.
#[derive(Clone, Debug)]
pub enum News {
    /// All objects at a revision of the server's store; an object that is not listed is gone.
    Listed(Resource, Vec<Arc<Object>>, u64),
    /// An object as it is now.
    Set(Resource, Arc<Object>),
    /// An object as it last was, and it is gone.
    Gone(Resource, Arc<Object>),
    /// It cannot be read, and why: not served, or not permitted. Sent only to listeners that can run without it.
    Barred(Resource, Arc<CallError>),
}

impl News {
    /// The resource that changed.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match self {
            Self::Listed(resource, ..)
            | Self::Set(resource, _)
            | Self::Gone(resource, _)
            | Self::Barred(resource, _) => *resource,
        }
    }
}

/// An object. Each of its readings is made when first asked for.
pub struct Object {
    /// Where it is.
    pub key: ObjectKey,
    /// Its incarnation.
    pub uid: Uid,
    /// Its version, for preconditions.
    pub resource_version: Text,
    resource: Resource,
    text: Box<str>,
    typed: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
    cache: Option<Arc<DecodeCache>>,
    standing: Arc<Standing>,
    model: OnceLock<Result<Model, Unreadable<Model>>>,
}

/// The last readings of one resource, so that those who hear of an object at about the same time read it once. They are large; who needs one for
/// longer keeps what it needs of it.
#[derive(Default)]
pub(crate) struct DecodeCache {
    kept: Mutex<Kept>,
    shared: Mutex<Shared>,
    templates: Mutex<PodTemplates>,
    /// How many of its objects cannot be read.
    unreadable: Gauge,
}

#[derive(Default)]
struct Kept {
    /// The oldest first, each with the length of the text that it was read from.
    readings: VecDeque<(Arc<dyn Any + Send + Sync>, usize)>,
    /// The sum of the lengths.
    bytes: usize,
}

/// Readings that are kept at most, and the length of the texts that they were read from; the last one always is. A reading is a few times
/// as large as its text.
const KEPT_MAX: usize = 512;
const KEPT_BYTES_MAX: usize = 2 << 20;

impl fmt::Debug for DecodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecodeCache")
    }
}

impl DecodeCache {
    /// Objects that cannot be read are counted here.
    pub(crate) fn counting(unreadable: Gauge) -> Self {
        Self { unreadable, ..Self::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn templates(&self) -> MutexGuard<'_, PodTemplates> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes a pod; its template is decoded once for all pods that have it. `None` when its form is unusual.
    fn pod(&self, json: &str) -> Result<Option<Pod>, FieldError> {
        let Some(outline) = PodOutline::read(json) else { return Ok(None) };
        let known = self.templates().get(outline.key());
        let template = if let Some(template) = known {
            template
        } else {
            let template = Arc::new(PodOutline::template(json)?);
            self.templates().insert(outline.key(), Arc::clone(&template));
            template
        };
        outline.pod(&template).map(Some)
    }

    fn keep(&self, reading: Arc<dyn Any + Send + Sync>, bytes: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.readings.push_back((reading, bytes));
        kept.bytes += bytes;
        let mut oldest = Vec::new();
        while kept.readings.len() > 1 && (kept.readings.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX) {
            let Some((reading, bytes)) = kept.readings.pop_front() else { break };
            kept.bytes -= bytes;
            oldest.push(reading);
        }
        drop(kept);
        // Taking them apart takes a while.
        drop(oldest);
    }
}

/// An object in the form that the cores use. Clones share it.
#[derive(Clone, Debug)]
pub enum Model {
    /// A ResourceSlice, published by a driver.
    Slice(Arc<ResourceSlice>),
    /// A class of devices.
    Class(Arc<DeviceClass>),
    /// A claim.
    Claim(Arc<ResourceClaim>),
    /// A template of claims.
    Template(Arc<ClaimTemplate>),
    /// A rule that taints.
    Rule(Arc<DeviceTaintRule>),
    /// A patch of devices.
    Patch(Arc<ResourceSlicePatch>),
    /// A pod.
    Pod(Arc<Pod>),
    /// A group of pods.
    Group(Arc<PodGroup>),
    /// A node.
    Node(Arc<Node>),
    /// Something that they do not know.
    Other,
}

impl From<lazaret_api::Object> for Model {
    fn from(object: lazaret_api::Object) -> Self {
        match object {
            Read::Slice(slice) => Self::Slice(Arc::new(slice)),
            Read::Class(class) => Self::Class(Arc::new(class)),
            Read::Claim(claim) => Self::Claim(Arc::new(claim)),
            Read::Template(template) => Self::Template(Arc::new(template)),
            Read::Rule(rule) => Self::Rule(Arc::new(rule)),
            Read::Patch(patch) => Self::Patch(Arc::new(patch)),
            Read::Pod(pod) => Self::Pod(Arc::new(pod)),
            Read::Group(group) => Self::Group(Arc::new(group)),
            Read::Node(node) => Self::Node(Arc::new(node)),
            Read::Other(_) => Self::Other,
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("version", &self.resource_version)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Metadata<'a> {
    // Another encoder may escape any letter, and write null for what is empty.
    #[serde(default, borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "resourceVersion")]
    resource_version: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "managedFields")]
    record: Option<&'a RawValue>,
}

impl Object {
    /// Reads an object's header from its JSON. `apiVersion` and `kind`, which a list leaves out, are put back.
    ///
    /// # Errors
    /// When it is not an object with metadata. The text after the metadata is not looked at: a reader of the object finds out whether it is whole.
    pub fn new(resource: &Resource, text: impl AsRef<[u8]>) -> Result<Self, serde_json::Error> {
        let text = core::str::from_utf8(text.as_ref()).map_err(serde_json::Error::custom)?;
        let Beginning { metadata, says_kind } = Beginning::<Metadata<'_>>::read(text)?;
        let text_of = |said: &Option<Cow<'_, str>>| Text::from(said.as_deref().unwrap_or_default());
        let (key, uid, resource_version) = (
            ObjectKey { namespace: text_of(&metadata.namespace), name: text_of(&metadata.name) },
            text_of(&metadata.uid),
            text_of(&metadata.resource_version),
        );
        let head = if says_kind {
            String::new()
        } else {
            format!(r#""apiVersion":"{}","kind":"{}","#, resource.api_version(), resource.kind)
        };
        let text = whole(text, &head, metadata.record.map(RawValue::get));
        let (typed, model) = (Mutex::default(), OnceLock::new());
        Ok(Self {
            key,
            uid,
            resource_version,
            resource: *resource,
            text,
            typed,
            cache: None,
            standing: Arc::default(),
            model,
        })
    }

    /// The same, whose readings are kept for a while with those of others.
    pub(crate) fn kept_in(mut self, cache: &Arc<DecodeCache>) -> Self {
        cache.shared().text(&mut self.key.namespace);
        Self { cache: Some(Arc::clone(cache)), ..self }
    }

    /// Whether it is the newest version, shared with whoever knows.
    pub(crate) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    pub(crate) fn is_outdated(&self) -> bool {
        self.standing.is_outdated()
    }

    /// Its version as a number: servers since 1.35 promise that it is one. Nought if it is none.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// Its JSON.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Its JSON as text, which takes less time to read than bytes.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The object in the form that the cores use, decoded at the first call. Of one that cannot be decoded it is what the smallest reader finds,
    /// see [`Object::reading`].
    ///
    /// # Errors
    /// The field that cannot be understood, where nothing is known of the object.
    pub fn model(&self) -> Result<&Model, &FieldError> {
        match self.decoded() {
            Ok(model) => Ok(model),
            Err(unreadable) => unreadable.what_is_known.as_ref().ok_or(&unreadable.why),
        }
    }

    /// Reads the object as far as it can be read. `last_good`: whoever asks holds what an earlier version of this incarnation said.
    #[must_use]
    pub fn reading(&self, last_good: bool) -> Reading<&Model> {
        match self.decoded() {
            Ok(model) => Reading::Known(model),
            Err(unreadable) => unreadable.reading(last_good),
        }
    }

    /// Why it cannot be decoded, if it cannot.
    #[must_use]
    pub fn unreadable(&self) -> Option<&FieldError> {
        self.decoded().err().map(|unreadable| &unreadable.why)
    }

    /// Says at error level, and in a metric, that the object cannot be read and what is kept because of it: once, whoever finds out.
    pub fn cannot_be_read(&self, why: &dyn fmt::Display, kept: &str) {
        let count = self.cache.as_ref().map_or_else(Gauge::default, |cache| cache.unreadable.clone());
        if self.standing.count_as_unreadable(count) {
            let (kind, key) = (self.resource.kind, &self.key);
            error!(kind, %key, %why, kept, "an object cannot be read: write it so that it can be read, or delete it");
        }
    }

    fn decoded(&self) -> Result<&Model, &Unreadable<Model>> {
        self.model.get_or_init(|| self.decode().map_err(|why| self.salvage(why))).as_ref()
    }

    fn decode(&self) -> Result<Model, FieldError> {
        let Resource { group, version, kind, .. } = self.resource;
        let pod = match &self.cache {
            Some(cache) if self.resource == PODS => cache.pod(self.text())?,
            Some(_) | None => None,
        };
        let mut read = match pod {
            Some(pod) => Read::Pod(pod),
            None => lazaret_api::decode_as(group, version, kind, self.text())?,
        };
        if let Some(cache) = &self.cache {
            cache.shared().share(&self.key, &self.uid, &mut read);
        }
        Ok(Model::from(read))
    }

    /// It cannot be decoded: reads what can be read.
    fn salvage(&self, why: FieldError) -> Unreadable<Model> {
        let Resource { group, version, kind, .. } = self.resource;
        let known = what_is_known(group, version, kind, self.text());
        self.cannot_be_read(&why, &kept_in_words(kind, &self.key.to_string(), known.as_ref()));
        let says_what_is_held = known.as_ref().is_some_and(|known| known.says_what_is_held);
        Unreadable { what_is_known: known.map(|known| Model::from(known.object)), says_what_is_held, why }
    }

    /// Read as `K`, and kept for a while for the next who asks.
    ///
    /// # Errors
    /// When it is no `K`.
    pub fn read<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<K>, serde_json::Error> {
        // A second reader waits for the first, and uses its result.
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = typed.as_ref().and_then(Weak::upgrade).and_then(|kept| kept.downcast::<K>().ok())
        {
            return Ok(kept);
        }
        let read = Arc::new(serde_json::from_str::<K>(self.text())?);
        let any: Arc<dyn Any + Send + Sync> = read.clone();
        *typed = Some(Arc::downgrade(&any));
        drop(typed);
        if let Some(cache) = &self.cache {
            cache.keep(any, self.text.len());
        }
        Ok(read)
    }
}

/// The object with `head` in front of its fields and without `managedFields`: no code here reads which manager wrote a field, and that record is
/// longer than most objects.
fn whole(text: &str, head: &str, record: Option<&str>) -> Box<str> {
    let start = text.find('{').map_or(0, |at| at + 1);
    let cut = record.and_then(|record| place_of(text, record)).unwrap_or(start..start);
    [&text[..start], head, &text[start..cut.start], &text[cut.end..]].concat().into()
}

/// Where the field with this value stands, its name and one comma included.
fn place_of(text: &str, value: &str) -> Option<Range<usize>> {
    const NAME: &str = "\"managedFields\"";
    let is_space = |c: char| c.is_ascii_whitespace();
    let at = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let name = memchr::memmem::rfind(&text.as_bytes()[..at], NAME.as_bytes())?;
    let after = &text[at + value.len()..];
    if let Some(rest) = after.trim_start_matches(is_space).strip_prefix(',') {
        return Some(name..text.len() - rest.len());
    }
    let before = text[..name].trim_end_matches(is_space);
    Some(before.strip_suffix(',').map_or(name, str::len)..at + value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_leaves_out_is_put_back() {
        let bare = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"spec":{}}"#;
        let object = Object::new(&PODS, bare).unwrap();
        assert_eq!((object.key.to_string().as_str(), object.uid.as_str()), ("n/a", "u"));
        assert!(matches!(object.model(), Ok(Model::Pod(_))));
        let typed = object.read::<k8s_openapi::api::core::v1::Pod>().unwrap();
        assert!(Arc::ptr_eq(&typed, &object.read().unwrap()));
    }

    #[test]
    fn readings_are_kept_by_number_and_by_size() {
        let cache = DecodeCache::default();
        let held = |cache: &DecodeCache| {
            let kept = cache.kept.lock().unwrap();
            (kept.readings.len(), kept.bytes)
        };
        for _ in 0..2 * KEPT_MAX {
            cache.keep(Arc::new(()), 1);
        }
        assert_eq!(held(&cache), (KEPT_MAX, KEPT_MAX));
        for _ in 0..10 {
            cache.keep(Arc::new(()), KEPT_BYTES_MAX / 4);
        }
        assert_eq!(held(&cache), (4, KEPT_BYTES_MAX));
        cache.keep(Arc::new(()), 2 * KEPT_BYTES_MAX);
        assert_eq!(held(&cache), (1, 2 * KEPT_BYTES_MAX));
        cache.keep(Arc::new(()), 7);
        assert_eq!(held(&cache), (1, 7));
    }

    #[test]
    fn a_record_of_owners_is_left_out_wherever_it_stands() {
        for text in [
            r#"{"kind":"Pod","metadata":{"managedFields":[{"a":"]"}],"name":"a"}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"a":"]"}]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a", "managedFields" : [ ] , "uid":"u"}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a" , "managedFields":[]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"a","annotations":{"managedFields":"\"managedFields\""},"managedFields":[{}]}}"#,
            r#"{"metadata":{"managedFields":[],"name":"a"}}"#,
        ] {
            let mut expected: serde_json::Value = serde_json::from_str(text).unwrap();
            expected["metadata"].as_object_mut().unwrap().remove("managedFields");
            let object = Object::new(&PODS, text).unwrap();
            let mut found: serde_json::Value = serde_json::from_slice(object.json()).unwrap();
            found.as_object_mut().unwrap().remove("apiVersion");
            expected["kind"] = "Pod".into();
            assert_eq!(found, expected, "{text}");
        }
    }
}
