//! The images of a node.

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Collected, Digest, Image, ImageError, Limits, PullOptions, Reference, Thresholds, User, UserError, clock,
    error::{Result, invalid},
    garbage, import,
    pull::Flights,
    store::{Index, Record, Store},
};

/// The images of a node, under one directory. Clones are the same store; other processes may use it as well.
#[derive(Clone, Debug)]
pub struct Images {
    pub(crate) store: Arc<Store>,
    pub(crate) limits: Limits,
    pub(crate) options: Arc<PullOptions>,
    pub(crate) flights: Arc<Flights>,
}

impl Images {
    /// Opens a store, or makes it, and removes what a crash left behind.
    pub fn open(root: impl Into<PathBuf>, limits: Limits) -> Result<Self> {
        Ok(Self {
            store: Arc::new(Store::open(root.into())?),
            limits,
            options: Arc::default(),
            flights: Arc::default(),
        })
    }

    /// Sets timeouts and attempts of pulls, and the authorities that they trust.
    #[must_use]
    pub fn with_pull_options(mut self, options: PullOptions) -> Self {
        self.options = Arc::new(options);
        self
    }

    /// An image by its name, as a pod has it, by `NAME@DIGEST`, or by its id. It counts as used now.
    pub async fn find(&self, name: &str) -> Option<Image> {
        let name = name.to_owned();
        let found = self.blocking(move |store, _| find(store, &name)).await;
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "an image cannot be looked up");
            None
        })
    }

    /// Takes in an OCI layout, an archive of `docker save`, or a root file system: a directory or a tar file, which may be compressed.
    ///
    /// The name is needed where the archive has none.
    pub async fn import(&self, path: &Path, name: Option<&str>) -> Result<Vec<Image>> {
        let (path, name) = (path.to_owned(), name.map(str::to_owned));
        self.blocking(move |store, limits| import::import_path(store, limits, &path, name.as_deref())).await
    }

    /// As [`Images::import`], from a stream.
    pub async fn import_reader(
        &self,
        reader: impl Read + Send + 'static,
        name: Option<&str>,
    ) -> Result<Vec<Image>> {
        let name = name.map(str::to_owned);
        self.blocking(move |store, limits| import::import_reader(store, limits, reader, name.as_deref()))
            .await
    }

    /// All images, by name. One that is damaged is left out.
    pub async fn list(&self) -> Result<Vec<Image>> {
        self.blocking(|store, _| {
            let index = store.index()?;
            let read = |(name, record): (&String, &Record)| {
                store
                    .image(name, record)
                    .inspect_err(|error| tracing::warn!(%name, %error, "an image is damaged"))
                    .ok()
            };
            Ok(index.names.iter().filter_map(read).collect())
        })
        .await
    }

    /// Takes a name away from its image, and removes the image when it was the last one. `InUse` when containers use it.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.blocking(move |store, _| remove(store, &name)).await
    }

    /// Removes images that nothing uses, when the disk is full. `in_use` are the ids of images of containers that are there.
    pub async fn collect_garbage(
        &self,
        in_use: &BTreeSet<String>,
        thresholds: Thresholds,
    ) -> Result<Collected> {
        let in_use = in_use.clone();
        self.blocking(move |store, _| {
            store.set_in_use(&in_use)?;
            garbage::collect(store, &in_use, thresholds, clock::now())
        })
        .await
    }

    /// As [`Images::collect_garbage`], for another process than the node's: what the node wrote down last is in use.
    pub async fn prune(&self) -> Result<Collected> {
        self.blocking(|store, _| garbage::collect(store, &BTreeSet::new(), Thresholds::all(), clock::now()))
            .await
    }

    /// Writes down the ids of images that containers of this node use, for other processes.
    pub async fn set_in_use(&self, in_use: &BTreeSet<String>) -> Result<()> {
        let in_use = in_use.clone();
        self.blocking(move |store, _| store.set_in_use(&in_use)).await
    }

    /// Resolves `USER[:GROUP]` in an image.
    pub fn user(&self, image: &Image, user: &str) -> Result<User, UserError> {
        crate::user(image, user)
    }

    /// Runs what waits for the disk where that is allowed.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Limits) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (store, limits) = (Arc::clone(&self.store), self.limits);
        tokio::task::spawn_blocking(move || work(&store, &limits))
            .await
            .map_err(|error| invalid(format!("work on images was interrupted: {error}")))?
    }
}

fn find(store: &Store, name: &str) -> Result<Option<Image>> {
    let index = store.index()?;
    let Some((found, record)) = lookup(&index, name)? else { return Ok(None) };
    // A pull policy that accepts a local image does not ask the registry: a damaged image counts as absent, and is pulled again.
    let image = store.image(&found, &record)?;
    store.touch(&image.id)?;
    Ok(Some(image))
}

/// The name under which an image is, and what it is.
pub(crate) fn lookup(index: &Index, name: &str) -> Result<Option<(String, Record)>> {
    let owned = |(name, record): (&String, &Record)| (name.clone(), record.clone());
    if Digest::parse(name).is_some() {
        return Ok(index.names.iter().find(|(_, record)| record.id == name).map(owned));
    }
    let reference = Reference::parse(name)?;
    if let Some(found) = index.names.get_key_value(&reference.to_string()) {
        return Ok(Some(owned(found)));
    }
    let Some(digest) = reference.digest() else { return Ok(None) };
    let repository = reference.without_version();
    let is_it = |(name, record): &(&String, &Record)| {
        let same_repository = Reference::parse(name).is_ok_and(|name| name.without_version() == repository);
        same_repository && record.manifest.as_deref() == Some(digest.as_str())
    };
    Ok(index.names.iter().find(is_it).map(|(_, record)| (reference.to_string(), record.clone())))
}

fn remove(store: &Store, name: &str) -> Result<()> {
    let kept = garbage::protected(store, &BTreeSet::new())?;
    store.change_index(|index| {
        let names: Vec<String> = if Digest::parse(name).is_some() {
            index.names.iter().filter(|(_, record)| record.id == name).map(|(name, _)| name.clone()).collect()
        } else {
            let name = Reference::parse(name)?.to_string();
            index.names.contains_key(&name).then_some(name).into_iter().collect()
        };
        if names.is_empty() {
            return Err(ImageError::NotFound(name.to_owned()));
        }
        for found in names {
            let Some(record) = index.names.remove(&found) else { continue };
            let is_last = !index.names.values().any(|other| other.id == record.id);
            if is_last && kept.contains(&record.id) {
                return Err(ImageError::InUse(name.to_owned()));
            }
        }
        Ok(())
    })?;
    // While something is taken in, its layers stay until the next removal or start.
    if let Some(lock) = store.try_lock_alone()? {
        store.sweep(&lock)?;
    }
    Ok(())
}
