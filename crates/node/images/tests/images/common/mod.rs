//! Helpers that the tests of this crate share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part of it; one that cannot go on has failed"
)]

use std::path::Path;

use lazaret_images::{Digest, ImageConfig, Images, Limits, layout::Layout, layout::Node};

/// A tar archive, byte by byte, with whatever a test wants to have in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawTar(pub(crate) Vec<u8>);

impl RawTar {
    pub(crate) fn entry(mut self, path: &str, kind: u8, link: &str, content: &[u8]) -> Self {
        self.push(path.as_bytes(), kind, link.as_bytes(), 0o644, content);
        self
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.entry(path, b'0', "", content.as_bytes())
    }

    pub(crate) fn directory(mut self, path: &str, mode: u32) -> Self {
        self.push(path.as_bytes(), b'5', b"", mode, b"");
        self
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, b'2', target, b"")
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(path, b'1', target, b"")
    }

    /// A PAX header for the entry that follows.
    pub(crate) fn pax(mut self, key: &str, value: &[u8]) -> Self {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        let mut record = format!("{length} {key}=").into_bytes();
        record.extend(value);
        record.push(b'\n');
        self.push(b"pax", b'x', b"", 0o644, &record);
        self
    }

    pub(crate) fn push(&mut self, path: &[u8], kind: u8, link: &[u8], mode: u32, content: &[u8]) {
        self.push_sized(path, kind, link, mode, content, content.len() as u64);
    }

    pub(crate) fn push_sized(
        &mut self,
        path: &[u8],
        kind: u8,
        link: &[u8],
        mode: u32,
        content: &[u8],
        size: u64,
    ) {
        if path.len() > 100 || link.len() > 100 {
            for (kind, text) in [(b'L', path), (b'K', link)] {
                if text.len() > 100 {
                    self.push(b"././@LongLink", kind, b"", 0, text);
                }
            }
        }
        let mut block = [0_u8; 512];
        let name = &path[..path.len().min(100)];
        block[..name.len()].copy_from_slice(name);
        block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
        block[108..115].copy_from_slice(b"0000000");
        block[116..123].copy_from_slice(b"0000000");
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[136..147].copy_from_slice(b"00000000000");
        block[156] = kind;
        let target = &link[..link.len().min(100)];
        block[157..157 + target.len()].copy_from_slice(target);
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        block[154] = 0;
        self.0.extend(block);
        self.0.extend(content);
        self.0.extend(vec![0; content.len().wrapping_neg() % 512]);
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

pub(crate) fn open(root: &Path) -> Images {
    Images::open(root, Limits::default()).unwrap()
}

pub(crate) fn file(path: &str, content: &str) -> (String, Node) {
    (path.to_owned(), Node::File { mode: 0o644, content: content.as_bytes().to_vec() })
}

/// An image of two layers, of which the upper hides a file of the lower.
pub(crate) fn two_layers(name: &str) -> Layout {
    let config = ImageConfig {
        entrypoint: vec!["/bin/app".to_owned()],
        command: vec!["--serve".to_owned()],
        env: vec!["A=1".to_owned()],
        working_directory: "/srv".to_owned(),
        user: "app".to_owned(),
        stop_signal: Some("SIGINT".to_owned()),
    };
    Layout::new(name, config)
        .layer([
            file("etc/passwd", "root:x:0:0::/:/bin/sh\napp:x:1000:1001::/:/bin/sh\n"),
            file("etc/group", "root:x:0:\napp:x:1001:\nvideo:x:44:app,other\n"),
            file("etc/old", "old"),
        ])
        .layer([("etc/old".to_owned(), Node::Whiteout), file("etc/new", "new")])
}

pub(crate) fn tar_of(layout: &Layout) -> Vec<u8> {
    let mut bytes = Vec::new();
    layout.write_tar(&mut bytes).unwrap();
    bytes
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The blobs of an image and its manifest, for a registry.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Vec<u8>,
    pub(crate) layers: Vec<Vec<u8>>,
}

impl Content {
    /// An image whose layers are these archives, which travel as `encode` makes them.
    pub(crate) fn new(archives: &[Vec<u8>], encode: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let diff_ids: Vec<String> = archives.iter().map(|archive| Digest::of(archive).to_string()).collect();
        let config = serde_json::json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Cmd": ["/bin/app"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = serde_json::to_vec(&config).unwrap();
        let layers: Vec<Vec<u8>> = archives.iter().map(|archive| encode(archive)).collect();
        let descriptor = |bytes: &Vec<u8>, media: &str| serde_json::json!({"mediaType": media, "digest": Digest::of(bytes).to_string(), "size": bytes.len()});
        let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor(&config, "application/vnd.oci.image.config.v1+json"),
            "layers": layers.iter().map(|bytes| descriptor(bytes, layer)).collect::<Vec<_>>(),
        });
        Self { manifest: serde_json::to_vec(&manifest).unwrap(), config, layers }
    }
}
