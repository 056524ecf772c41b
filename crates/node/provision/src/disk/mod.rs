//! Operations on disk. Every path that a pod names is walked from an open directory, so that no link leads out of it.

pub(crate) mod atomic;
pub(crate) mod dir;
pub(crate) mod host_path;
pub(crate) mod image_user;
pub(crate) mod image_volume;
pub(crate) mod mount_table;
pub(crate) mod payload;
pub(crate) mod place;
pub(crate) mod sub_path;
pub(crate) mod tree;
pub(crate) mod usage;
