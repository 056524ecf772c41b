//! Layers that want out. Nothing that an archive says reaches a path outside its directory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::common::{RawTar, open};
use lazaret_images::{Digest, Images};
use proptest::prelude::*;

/// Everything below a directory, with what a layer could change: content, mode, owner, number of links.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let links = if metadata.is_dir() { 0 } else { metadata.nlink() };
        found.insert(
            path,
            format!("{:o} {} {} {links} {content:?}", metadata.mode(), metadata.uid(), metadata.gid()),
        );
    }
    found
}

/// A folder with a store in it, and things beside it that must stay as they are.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "untouched").unwrap();
        fs::create_dir(victim.join("etc")).unwrap();
        fs::write(victim.join("etc/passwd"), "root").unwrap();
        Self { folder }
    }

    fn victim(&self) -> PathBuf {
        self.folder.path().join("victim")
    }

    fn images(&self) -> Images {
        open(&self.folder.path().join("store"))
    }

    /// Imports an archive, and looks whether anything changed that it has no business with.
    async fn attack(&self, archive: Vec<u8>) -> Result<PathBuf, String> {
        let images = self.images();
        let before = snapshot(&self.victim());
        let imported = images.import_reader(std::io::Cursor::new(archive), Some("localhost/evil:1")).await;
        assert_eq!(snapshot(&self.victim()), before, "something outside was changed");
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["store", "victim"]);
        let store = self.folder.path().join("store");
        for entry in fs::read_dir(&store).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = ["blobs", "index.json", "index.lock", "ingest", "layers", "store.lock", "used"];
            assert!(known.contains(&name.as_str()), "{name}");
        }
        assert_eq!(fs::read_dir(store.join("ingest")).unwrap().count(), 0);
        imported.map(|images| images[0].layers[0].clone()).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    for path in ["../victim/file", "a/../../victim/file", "..", "a/..", "x/../../../../../../victim/file"] {
        let scene = Scene::new();
        let error = scene.attack(RawTar::default().file(path, "evil").end()).await.unwrap_err();
        assert!(error.contains("`..`") || error.contains("does not end with a name"), "{path}: {error}");
    }
    // An absolute path is one in the layer.
    let scene = Scene::new();
    let absolute = format!("{}/file", scene.victim().display());
    let layer = scene.attack(RawTar::default().file(&absolute, "evil").end()).await.unwrap();
    assert_eq!(fs::read_to_string(layer.join(absolute.trim_start_matches('/'))).unwrap(), "evil");
}

#[tokio::test]
async fn links_lead_nowhere_else() {
    let scene = Scene::new();
    let victim = scene.victim().display().to_string();
    for target in [victim.as_str(), "../../../../../victim", "/../../../victim"] {
        let scene = Scene::new();
        let archive =
            RawTar::default().link("out", target).file("out/file", "evil").file("out/new", "evil").end();
        let layer = scene.attack(archive).await.unwrap();
        assert!(fs::symlink_metadata(layer.join("out")).unwrap().is_symlink());
    }
    // A file at the place of a link replaces the link, and does not go through it.
    let archive = RawTar::default().link("file", &format!("{victim}/file")).file("file", "mine").end();
    let layer = scene.attack(archive).await.unwrap();
    assert_eq!(fs::read_to_string(layer.join("file")).unwrap(), "mine");
    // Neither does a directory, a mode or an owner.
    let archive = RawTar::default()
        .link("etc", &format!("{victim}/etc"))
        .directory("etc", 0o777)
        .file("etc/passwd", "evil")
        .end();
    let layer = scene.attack(archive).await.unwrap();
    assert!(fs::symlink_metadata(layer.join("etc")).unwrap().is_dir());
    // Links in a circle end.
    let archive = RawTar::default().link("a", "b").link("b", "a").file("a/file", "x").end();
    assert!(scene.attack(archive).await.unwrap_err().contains("too many levels of links"));
    // Whiteouts go through no link.
    let archive =
        RawTar::default().link("out", &victim).file("out/.wh.file", "").file("out/.wh..wh..opq", "").end();
    scene.attack(archive).await.unwrap();
    for name in [".wh.", ".wh...", ".wh.."] {
        let error = scene.attack(RawTar::default().file(name, "").end()).await.unwrap_err();
        assert!(error.contains("does not end with a name"), "{name}: {error}");
    }
}

#[tokio::test]
async fn hard_links_lead_nowhere_else() {
    let scene = Scene::new();
    let victim = scene.victim().display().to_string();
    for target in ["../victim/file", "../../../../../victim/file"] {
        assert!(
            scene
                .attack(RawTar::default().hard_link("mine", target).end())
                .await
                .unwrap_err()
                .contains("`..`")
        );
    }
    let error =
        scene.attack(RawTar::default().hard_link("mine", &format!("{victim}/file")).end()).await.unwrap_err();
    assert!(error.contains("is not there"), "{error}");
    let archive = RawTar::default().link("out", &victim).hard_link("mine", "out/file").end();
    assert!(scene.attack(archive).await.unwrap_err().contains("is not there"));
    // A link to a link is that link, and what is written to it stays here.
    let archive = RawTar::default()
        .link("out", &format!("{victim}/file"))
        .hard_link("mine", "out")
        .file("mine", "evil")
        .end();
    scene.attack(archive).await.unwrap();
    let archive = RawTar::default().file("a", "a").hard_link("a", "a").hard_link("b", "a").end();
    let layer = scene.attack(archive).await.unwrap();
    assert_eq!(fs::metadata(layer.join("b")).unwrap().nlink(), 2);
    assert!(scene.attack(RawTar::default().directory("d", 0o755).hard_link("e", "d").end()).await.is_err());
}

#[tokio::test]
async fn overlayfs_has_its_attributes_and_devices_for_itself() {
    let scene = Scene::new();
    let archive = RawTar::default()
        .pax("SCHILY.xattr.trusted.overlay.redirect", b"/victim")
        .entry("redirected/", b'5', "", b"")
        .pax("SCHILY.xattr.user.overlay.opaque", b"y")
        .entry("opaque/", b'5', "", b"")
        .end();
    let layer = scene.attack(archive).await.unwrap();
    for (name, attribute) in [("redirected", "trusted.overlay.redirect"), ("opaque", "user.overlay.opaque")] {
        let mut value = [0_u8; 16];
        assert!(rustix::fs::getxattr(layer.join(name), attribute, &mut value[..]).is_err(), "{attribute}");
    }
    if rustix::process::geteuid().is_root() {
        let error = scene.attack(RawTar::default().entry("null", b'3', "", b"").end()).await.unwrap_err();
        assert!(error.contains("overlayfs' own"), "{error}");
    }
    for kind in [b'S', b'V', b'M', b'?'] {
        let error = scene.attack(RawTar::default().entry("a", kind, "", b"").end()).await.unwrap_err();
        assert!(error.contains("not supported"), "{error}");
    }
}

#[tokio::test]
async fn names_of_blobs_lead_nowhere_else() {
    let scene = Scene::new();
    let secret = scene.victim().join("file");
    let digest = Digest::of(b"untouched");
    for config in ["../victim/file".to_owned(), secret.display().to_string()] {
        let manifest = serde_json::json!([{"Config": config, "RepoTags": ["evil:1"], "Layers": []}]);
        let archive = RawTar::default().file("manifest.json", &manifest.to_string()).end();
        assert!(scene.attack(archive).await.unwrap_err().contains("is missing in the archive"));
        let layout = scene.folder.path().join("store/../layout");
        fs::create_dir_all(&layout).unwrap();
        fs::write(layout.join("oci-layout"), "{}").unwrap();
        let index = serde_json::json!({"manifests": [{"digest": format!("sha256:../../victim/{}", digest.hex()), "size": 1}]});
        fs::write(layout.join("index.json"), index.to_string()).unwrap();
        let error = scene.images().import(&layout, Some("evil:1")).await.unwrap_err().to_string();
        assert!(error.contains("is no SHA-256 digest"), "{error}");
        fs::remove_dir_all(&layout).unwrap();
    }
}

/// Paths as a hostile archive would have them: few names, so that they meet.
fn hostile_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned),
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        1 => Just("victim".to_owned()),
        1 => prop::sample::select(vec![".wh.a", ".wh.b", ".wh..wh..opq", ".wh..wh.x"]).prop_map(str::to_owned),
    ];
    (any::<bool>(), prop::collection::vec(part, 1..5))
        .prop_map(|(is_absolute, parts)| format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/")))
}

#[derive(Clone, Debug)]
struct Step {
    path: String,
    target: String,
    kind: u8,
    mode: u32,
}

fn step() -> impl Strategy<Value = Step> {
    let target = prop_oneof![
        3 => hostile_path(),
        1 => Just("VICTIM".to_owned()),
        1 => Just("VICTIM/file".to_owned()),
        1 => Just("../../../../victim".to_owned()),
    ];
    let kind =
        prop_oneof![3 => Just(b'0'), 2 => Just(b'1'), 4 => Just(b'2'), 2 => Just(b'5'), 1 => Just(b'6')];
    (hostile_path(), target, kind, 0_u32..0o10000).prop_map(|(path, target, kind, mode)| Step {
        path,
        target,
        kind,
        mode,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// No archive changes files beside the store. Each archive goes on after an entry that was refused,
    /// as often as there are entries: an attack must not hide behind the first mistake.
    #[test]
    fn random_archives_change_nothing_outside(steps in prop::collection::vec(step(), 1..12)) {
        let scene = Scene::new();
        let victim = scene.victim().display().to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut steps = steps;
        for _ in 0..12 {
            let mut archive = RawTar::default();
            for step in &steps {
                let target = step.target.replace("VICTIM", &victim);
                archive.push(step.path.as_bytes(), step.kind, target.as_bytes(), step.mode, b"");
            }
            match runtime.block_on(scene.attack(archive.end())) {
                Ok(_) => break,
                Err(error) => {
                    // Leaves out the entry that was refused, or the first.
                    let at = steps.iter().position(|step| error.contains(&format!("{:?}", step.path))).unwrap_or(0);
                    steps.remove(at);
                }
            }
        }
    }

    /// Archives of any bytes are refused or read, and nothing else.
    #[test]
    fn random_bytes_are_no_archive(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        let scene = Scene::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = runtime.block_on(scene.attack(bytes));
    }
}
