//! Which type a volume is of.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    ImageVolumeSource, ProjectedVolumeSource, SecretVolumeSource, Volume,
};

/// The types that there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    EmptyDir(&'a EmptyDirVolumeSource),
    HostPath(&'a HostPathVolumeSource),
    ConfigMap(&'a ConfigMapVolumeSource),
    Secret(&'a SecretVolumeSource),
    Downward(&'a DownwardAPIVolumeSource),
    Projected(&'a ProjectedVolumeSource),
    Image(&'a ImageVolumeSource),
    /// The name of its field.
    Unsupported(&'static str),
}

impl Kind<'_> {
    /// As kubelet names its directory, after `kubernetes.io~`.
    pub(crate) fn directory(&self) -> &'static str {
        match self {
            Self::EmptyDir(_) => "empty-dir",
            Self::HostPath(_) => "host-path",
            Self::ConfigMap(_) => "configmap",
            Self::Secret(_) => "secret",
            Self::Downward(_) => "downward-api",
            Self::Projected(_) => "projected",
            Self::Image(_) => "image",
            Self::Unsupported(_) => "unsupported",
        }
    }

    /// Whether it may hold secrets.
    pub(crate) fn is_kept_in_memory(&self) -> bool {
        match self {
            Self::Secret(_) | Self::Projected(_) => true,
            Self::ConfigMap(_) | Self::Downward(_) => false,
            Self::EmptyDir(_) | Self::HostPath(_) | Self::Image(_) | Self::Unsupported(_) => false,
        }
    }

    /// Whether no container may write to it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_written_as_one() || matches!(self, Self::Image(_))
    }

    /// Whether its content comes from the API.
    pub(crate) fn is_written_as_one(&self) -> bool {
        match self {
            Self::ConfigMap(_) | Self::Secret(_) | Self::Downward(_) | Self::Projected(_) => true,
            Self::EmptyDir(_) | Self::HostPath(_) | Self::Image(_) | Self::Unsupported(_) => false,
        }
    }
}

pub(crate) fn kind(volume: &Volume) -> Kind<'_> {
    if let Some(source) = &volume.empty_dir {
        Kind::EmptyDir(source)
    } else if let Some(source) = &volume.host_path {
        Kind::HostPath(source)
    } else if let Some(source) = &volume.config_map {
        Kind::ConfigMap(source)
    } else if let Some(source) = &volume.secret {
        Kind::Secret(source)
    } else if let Some(source) = &volume.downward_api {
        Kind::Downward(source)
    } else if let Some(source) = &volume.projected {
        Kind::Projected(source)
    } else if let Some(source) = &volume.image {
        Kind::Image(source)
    } else {
        Kind::Unsupported(unsupported(volume))
    }
}

fn unsupported(volume: &Volume) -> &'static str {
    let all = [
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.csi.is_some(), "csi"),
        (volume.nfs.is_some(), "nfs"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.fc.is_some(), "fc"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.rbd.is_some(), "rbd"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.cinder.is_some(), "cinder"),
        (volume.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.azure_file.is_some(), "azureFile"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.storageos.is_some(), "storageos"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.flocker.is_some(), "flocker"),
    ];
    all.into_iter().find(|(is, _)| *is).map_or("unknown", |(_, name)| name)
}
