//! The files of a volume that is written as one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret};

use crate::{NodeFacts, downward, names, pod::PodView};

/// A config map or secret has 1 MiB; a volume may join several of them.
pub(crate) const VOLUME_BYTES_MAX: usize = 16 << 20;
/// A config map of 1 MiB has fewer keys than this.
pub(crate) const VOLUME_FILES_MAX: usize = 16_384;
const MODE_DEFAULT: i32 = 0o644;

/// A file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PayloadFile {
    pub(crate) data: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) user: Option<u32>,
}

/// All files of a volume, by their paths: relative, clean, and none below another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload {
    files: BTreeMap<String, PayloadFile>,
    bytes: usize,
}

impl Payload {
    pub(crate) fn files(&self) -> &BTreeMap<String, PayloadFile> {
        &self.files
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a file. A later one with the same path wins.
    pub(crate) fn add(
        &mut self,
        path: &str,
        data: Vec<u8>,
        mode: i32,
        user: Option<u32>,
    ) -> Result<(), String> {
        let path = names::payload_path(path)?;
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > VOLUME_BYTES_MAX {
            return Err(format!("the volume would have more than {VOLUME_BYTES_MAX} bytes"));
        }
        if self.files.len() >= VOLUME_FILES_MAX {
            return Err(format!("the volume would have more than {VOLUME_FILES_MAX} files"));
        }
        let is_directory =
            self.files.range(format!("{path}/")..).next().is_some_and(|(other, _)| {
                other.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'))
            });
        let parent =
            path.match_indices('/').map(|(at, _)| &path[..at]).find(|up| self.files.contains_key(*up));
        if let Some(parent) = parent {
            return Err(format!("invalid path: {path}: {parent} is a file already"));
        }
        if is_directory {
            return Err(format!("invalid path: {path} is a directory already"));
        }
        let mode = u32::try_from(mode).ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or_else(|| format!("invalid mode of {path}: must be between 0 and 0777"))?;
        self.files.insert(path, PayloadFile { data, mode, user });
        Ok(())
    }

    pub(crate) fn add_config_map(
        &mut self,
        object: &ConfigMap,
        items: Option<&[KeyToPath]>,
        mode: Option<i32>,
        optional: bool,
    ) -> Result<(), String> {
        let (text, binary) = (object.data.as_ref(), object.binary_data.as_ref());
        let get = |key: &str| {
            let text = text.and_then(|data| data.get(key)).map(|text| text.as_bytes());
            text.or_else(|| binary.and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice()))
        };
        let keys =
            text.into_iter().flat_map(BTreeMap::keys).chain(binary.into_iter().flat_map(BTreeMap::keys));
        self.add_keys(keys, get, items, mode, |key| match optional {
            true => Ok(()),
            false => Err(format!("configmap references non-existent config key: {key}")),
        })
    }

    pub(crate) fn add_secret(
        &mut self,
        object: &Secret,
        items: Option<&[KeyToPath]>,
        mode: Option<i32>,
        optional: bool,
    ) -> Result<(), String> {
        let data = object.data.as_ref();
        let get = |key: &str| data.and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
        let keys = data.into_iter().flat_map(BTreeMap::keys);
        self.add_keys(keys, get, items, mode, |key| match optional {
            true => Ok(()),
            false => Err(format!("references non-existent secret key: {key}")),
        })
    }

    /// All keys under their own names, or those that are listed under other names.
    fn add_keys<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a String>,
        get: impl Fn(&str) -> Option<&'a [u8]>,
        items: Option<&[KeyToPath]>,
        mode: Option<i32>,
        missing: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), String> {
        let mode = mode.unwrap_or(MODE_DEFAULT);
        let items = items.unwrap_or_default();
        if items.is_empty() {
            for key in keys {
                self.add(key, get(key).unwrap_or_default().to_vec(), mode, None)?;
            }
        }
        for item in items {
            match get(&item.key) {
                Some(data) => self.add(&item.path, data.to_vec(), item.mode.unwrap_or(mode), None)?,
                None => missing(&item.key)?,
            }
        }
        Ok(())
    }

    pub(crate) fn add_downward(
        &mut self,
        items: Option<&[DownwardAPIVolumeFile]>,
        mode: Option<i32>,
        view: &PodView<'_>,
        facts: &NodeFacts,
    ) -> Result<(), String> {
        for item in items.unwrap_or_default() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => downward::field(&field.field_path, view)?,
                (None, Some(resource)) => downward::resource(resource, view, None, facts)?,
                (None, None) => String::new(),
            };
            self.add(&item.path, text.into_bytes(), item.mode.or(mode).unwrap_or(MODE_DEFAULT), None)?;
        }
        Ok(())
    }
}
