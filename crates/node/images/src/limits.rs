//! How much an image may have of everything.

/// Limits on what is taken in. Each protects the node from one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one layer, compressed.
    pub layer_bytes_max: u64,
    /// Bytes of one layer, unpacked.
    pub unpacked_bytes_max: u64,
    /// Files, directories and links of one layer.
    pub entries_max: u64,
    /// Layers of one image. overlayfs takes 500; the names of layers must also fit in one page of mount options.
    pub layers_max: usize,
    /// How much larger a layer may be than what was downloaded, beyond [`RATIO_FREE_BYTES`].
    pub ratio_max: u64,
    /// Bytes of a manifest, an index or a configuration: registries take 4 MiB.
    pub document_bytes_max: u64,
}

/// Up to here a layer may be compressed as well as it likes: a small layer with one large empty file is no attack.
pub const RATIO_FREE_BYTES: u64 = 256 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The largest layers in use hold machine-learning libraries and models: 10 to 20 GiB.
            layer_bytes_max: 32 << 30,
            unpacked_bytes_max: 64 << 30,
            // A layer with all packages of a distribution has some 300,000.
            entries_max: 2_000_000,
            // Docker's own limit.
            layers_max: 127,
            // Text compresses 3 to 20 times.
            ratio_max: 200,
            document_bytes_max: 4 << 20,
        }
    }
}
