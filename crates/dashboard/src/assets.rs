//! The files of the page, part of the binary.

use std::{
    io::{Read, Write},
    sync::OnceLock,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use ring::digest::{SHA256, digest};

/// No file of the page comes near this when it is unpacked.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;

/// A file of the page.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/ui/`.
    pub name: &'static str,
    /// What it is.
    pub content_type: &'static str,
    stored: Stored,
    packed: OnceLock<Bytes>,
    tag: OnceLock<String>,
}

#[derive(Debug)]
enum Stored {
    Plain(&'static [u8]),
    /// Compressed in the source tree: what was built elsewhere and is large.
    Gzip(&'static [u8]),
}

impl Asset {
    const fn plain(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self {
            name,
            content_type,
            stored: Stored::Plain(bytes),
            packed: OnceLock::new(),
            tag: OnceLock::new(),
        }
    }

    const fn gzip(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self {
            name,
            content_type,
            stored: Stored::Gzip(bytes),
            packed: OnceLock::new(),
            tag: OnceLock::new(),
        }
    }

    /// Its bytes as they are.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match self.stored {
            Stored::Plain(bytes) => Bytes::from_static(bytes),
            Stored::Gzip(bytes) => {
                let mut plain = Vec::new();
                // It is compressed in our own tree, which a test reads.
                let _ = GzDecoder::new(bytes).take(UNPACKED_BYTES_MAX).read_to_end(&mut plain);
                plain.into()
            }
        }
    }

    /// Its bytes compressed by gzip.
    #[must_use]
    pub fn packed(&self) -> Bytes {
        match self.stored {
            Stored::Gzip(bytes) => Bytes::from_static(bytes),
            Stored::Plain(bytes) => self
                .packed
                .get_or_init(|| {
                    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                    // Writing to memory does not fail.
                    let _ = encoder.write_all(bytes);
                    encoder.finish().unwrap_or_default().into()
                })
                .clone(),
        }
    }

    /// Tells one state of the file from another.
    pub(crate) fn tag(&self) -> &str {
        self.tag.get_or_init(|| {
            let (Stored::Plain(bytes) | Stored::Gzip(bytes)) = &self.stored;
            let hash = digest(&SHA256, bytes);
            let hex: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("\"{hex}\"")
        })
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        Asset::plain($name, SCRIPT, include_bytes!(concat!("../ui/", $name)))
    };
}

static ASSETS: [Asset; 20] = [
    Asset::plain("index.html", "text/html; charset=utf-8", include_bytes!("../ui/index.html")),
    Asset::plain("style.css", "text/css; charset=utf-8", include_bytes!("../ui/style.css")),
    Asset::plain("icon.svg", "image/svg+xml", include_bytes!("../ui/icon.svg")),
    Asset::gzip("whatif.wasm", "application/wasm", include_bytes!("../ui/whatif.wasm.gz")),
    script!("main.js"),
    script!("api.js"),
    script!("dom.js"),
    script!("fleet.js"),
    script!("heatmap.js"),
    script!("panel.js"),
    script!("actions.js"),
    script!("record.js"),
    script!("engine.js"),
    script!("page-fleet.js"),
    script!("page-whatif.js"),
    script!("page-drains.js"),
    script!("page-incidents.js"),
    script!("page-replay.js"),
    script!("page-why.js"),
    script!("page-cluster.js"),
];

/// Every file of the page.
#[must_use]
pub fn assets() -> &'static [Asset] {
    &ASSETS
}

/// The file of this name.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}
