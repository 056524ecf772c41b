//! Images that nothing uses, removed when the runtime's disk is full, as a kubelet does it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use lazaret_containers::RuntimeError;
use lazaret_images::{Collected, ImageError, Thresholds, bytes_to_free_at};

use crate::{
    Cri, clock, proto,
    runtime::{CHANGE_LIMIT, QUERY_LIMIT},
};

impl Cri {
    /// Removes images that no container of any client uses, and that the runtime does not need itself.
    pub(crate) async fn remove_unused_images(
        &self,
        in_use: &BTreeSet<String>,
        thresholds: Thresholds,
    ) -> Result<Collected, ImageError> {
        let failed = |error: RuntimeError| ImageError::Io {
            what: "remove images of the runtime".to_owned(),
            source: std::io::Error::other(error.to_string()),
        };
        let request = proto::ListImagesRequest { filter: None };
        let found: proto::ListImagesResponse =
            self.connection.call(proto::LIST_IMAGES, request, QUERY_LIMIT).await.map_err(failed)?;
        let request = proto::ListContainersRequest { filter: None };
        let containers: proto::ListContainersResponse =
            self.connection.call(proto::LIST_CONTAINERS, request, QUERY_LIMIT).await.map_err(failed)?;
        let mut named = in_use.clone();
        named.extend(containers.containers.into_iter().map(|container| container.image_ref));
        // Also while the disk is not full: what is used now is known later.
        let candidates = self.uses.unused(&found.images, &named, clock::now(), thresholds);
        let mut collected = Collected::default();
        let Some(wanted) = self.wanted(thresholds).await.map_err(failed)? else { return Ok(collected) };
        for candidate in candidates {
            // Without a threshold everything goes, also what has no bytes.
            if collected.bytes >= wanted && thresholds.low_percent > 0 {
                break;
            }
            let image = proto::ImageSpec { image: candidate.id.clone(), ..proto::ImageSpec::default() };
            let request = proto::RemoveImageRequest { image: Some(image) };
            let removed: Result<proto::Empty, RuntimeError> =
                self.connection.call(proto::REMOVE_IMAGE, request, CHANGE_LIMIT).await;
            if let Err(error) = removed {
                tracing::warn!(%error, image = candidate.id, "remove an image");
                continue;
            }
            let image = found.images.iter().find(|image| image.id == candidate.id);
            collected.bytes = collected.bytes.saturating_add(image.map_or(0, |image| image.size));
            let name = image.and_then(|image| image.repo_tags.first().cloned());
            collected.names.push(name.unwrap_or(candidate.id));
        }
        Ok(collected)
    }

    /// The bytes that must be freed where the runtime keeps its images.
    async fn wanted(&self, thresholds: Thresholds) -> Result<Option<u64>, RuntimeError> {
        if thresholds.high_percent == 0 {
            return Ok(Some(0));
        }
        let answer: proto::ImageFsInfoResponse =
            self.connection.call(proto::IMAGE_FS_INFO, proto::Empty {}, QUERY_LIMIT).await?;
        let mut places = answer.image_filesystems.into_iter().filter_map(|usage| usage.fs_id);
        let Some(place) = places.next().map(|place| PathBuf::from(place.mountpoint)) else {
            return Err(RuntimeError::Failed("the runtime does not say where its images are".to_owned()));
        };
        bytes_to_free_at(existing(&place), thresholds)
            .map_err(|error| RuntimeError::Failed(error.to_string()))
    }
}

/// A runtime may name a directory that it makes with the first image.
fn existing(place: &Path) -> &Path {
    place.ancestors().find(|path| path.exists()).unwrap_or(place)
}
