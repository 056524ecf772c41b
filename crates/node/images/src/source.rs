//! Where a node has its images.

use std::{collections::BTreeSet, fmt, pin::Pin, sync::Arc};

use crate::{Collected, Image, ImageError, Images, Keychain, PullError, Thresholds};

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a node has its images: a store of its own, which is [`Images`], or that of a container runtime.
pub trait ImageSource: fmt::Debug + Send + Sync {
    /// An image that is there.
    fn find<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Image>>;

    /// Pulls an image, whether it is there or not.
    fn pull<'a>(&'a self, name: &'a str, keychain: &'a Keychain) -> Answer<'a, Result<Image, PullError>>;

    /// Removes images that nothing uses, when the disk is full. `in_use` are the ids of images of containers that are there.
    fn collect_garbage<'a>(
        &'a self,
        in_use: &'a BTreeSet<String>,
        thresholds: Thresholds,
    ) -> Answer<'a, Result<Collected, ImageError>>;
}

impl ImageSource for Images {
    fn find<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Image>> {
        Box::pin(Self::find(self, name))
    }

    fn pull<'a>(&'a self, name: &'a str, keychain: &'a Keychain) -> Answer<'a, Result<Image, PullError>> {
        Box::pin(Self::pull(self, name, keychain))
    }

    fn collect_garbage<'a>(
        &'a self,
        in_use: &'a BTreeSet<String>,
        thresholds: Thresholds,
    ) -> Answer<'a, Result<Collected, ImageError>> {
        Box::pin(Self::collect_garbage(self, in_use, thresholds))
    }
}

impl From<Images> for Arc<dyn ImageSource> {
    fn from(images: Images) -> Self {
        Arc::new(images)
    }
}
