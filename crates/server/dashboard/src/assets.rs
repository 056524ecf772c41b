//! The files of the page, part of the binary.

use std::{
    io::{Read, Write},
    sync::OnceLock,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use ring::digest::{SHA256, digest};

use crate::bundle::{Module, bundle};

/// No file of the page comes near this when it is unpacked.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;

/// A file of the page.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/ui/`.
    pub name: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    stored: Stored,
    packed: OnceLock<Bytes>,
    tag: OnceLock<String>,
}

#[derive(Debug)]
enum Stored {
    Plain(&'static [u8]),
    /// A page with its style in it.
    Page(&'static str),
    /// The bundle of this module and of all that it needs.
    Modules(&'static str),
    /// Compressed in the source tree, both ways: what was built elsewhere and is large.
    Packed {
        gzip: &'static [u8],
        brotli: &'static [u8],
    },
}

impl Asset {
    const fn new(name: &'static str, content_type: &'static str, stored: Stored) -> Self {
        Self { name, content_type, stored, packed: OnceLock::new(), tag: OnceLock::new() }
    }

    /// Its bytes as they are.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match self.stored {
            Stored::Plain(bytes) => Bytes::from_static(bytes),
            Stored::Page(text) => text.replace(STYLE_LINK, &format!("<style>{STYLE}</style>")).into(),
            // A test bundles them: what cannot be bundled never gets here.
            Stored::Modules(entry) => bundle(entry, &MODULES).unwrap_or_default().into(),
            Stored::Packed { gzip, .. } => {
                let mut plain = Vec::new();
                // It is compressed in our own tree, which a test reads.
                let _ = GzDecoder::new(gzip).take(UNPACKED_BYTES_MAX).read_to_end(&mut plain);
                plain.into()
            }
        }
    }

    /// Its bytes compressed by gzip.
    #[must_use]
    pub fn packed(&self) -> Bytes {
        let pack = || {
            if let Stored::Packed { gzip, .. } = self.stored {
                return Bytes::from_static(gzip);
            }
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail.
            let _ = encoder.write_all(&self.bytes());
            encoder.finish().unwrap_or_default().into()
        };
        self.packed.get_or_init(pack).clone()
    }

    /// Its bytes compressed by brotli, where they are kept so: a quarter smaller, and too slow to make while a browser waits.
    #[must_use]
    pub fn brotli(&self) -> Option<Bytes> {
        match self.stored {
            Stored::Packed { brotli, .. } => Some(Bytes::from_static(brotli)),
            Stored::Plain(_) | Stored::Page(_) | Stored::Modules(_) => None,
        }
    }

    /// Tells one state of the file from another.
    pub(crate) fn tag(&self) -> &str {
        self.tag.get_or_init(|| {
            let hash = digest(&SHA256, &self.packed());
            let hex: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("\"{hex}\"")
        })
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! modules {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../ui/", $name)))),*] };
}

/// The modules of the page; a browser gets them as one file.
pub(crate) static MODULES: [Module; 20] = modules![
    "main.js",
    "api.js",
    "dom.js",
    "fleet.js",
    "heatmap.js",
    "panel.js",
    "actions.js",
    "moves.js",
    "record.js",
    "engine.js",
    "page-fleet.js",
    "page-whatif.js",
    "page-drains.js",
    "page-incidents.js",
    "page-replay.js",
    "page-why.js",
    "page-cluster.js",
    "wait-rows.js",
    "waits.js",
    "yaml.js",
];

/// How the page looks. It stands in the page itself, which a browser can then paint without asking for anything else.
pub(crate) static STYLE: &str = include_str!("../ui/style.css");
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"style.css\">";

static ASSETS: [Asset; 5] = [
    Asset::new("index.html", "text/html; charset=utf-8", Stored::Page(include_str!("../ui/index.html"))),
    Asset::new("icon.svg", "image/svg+xml", Stored::Plain(include_bytes!("../ui/icon.svg"))),
    Asset::new("boot.js", SCRIPT, Stored::Plain(include_bytes!("../ui/boot.js"))),
    Asset::new("app.js", SCRIPT, Stored::Modules("main.js")),
    Asset::new(
        "whatif.wasm",
        "application/wasm",
        Stored::Packed {
            gzip: include_bytes!("../ui/whatif.wasm.gz"),
            brotli: include_bytes!("../ui/whatif.wasm.br"),
        },
    ),
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
