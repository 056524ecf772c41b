//! Holds `lazaret-cdi` against `container-device-interface`, the CDI project's own crate: `cargo test` in this folder.
//!
//! A package of its own, so that what that crate is built from stays out of the workspace.
