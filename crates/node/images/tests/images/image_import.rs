//! Images from files, and what becomes of them in the store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::Path,
};

use crate::common::{Content, RawTar, file, gzip, open, tar_of, two_layers};
use lazaret_images::{
    Digest, ImageConfig, ImageError, Images, Limits, Thresholds, User, layout::Layout, layout::Node,
};

#[tokio::test]
async fn an_oci_archive_is_imported_found_and_read_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(&folder.path().join("store"));
    let tar = folder.path().join("image.tar");
    fs::write(&tar, tar_of(&two_layers("localhost/app:1"))).unwrap();
    let imported = images.import(&tar, None).await.unwrap();
    assert_eq!(imported.len(), 1);
    assert_eq!(imported[0].name, "localhost/app:1");

    let again = open(&folder.path().join("store"));
    let image = again.find("localhost/app:1").await.unwrap();
    assert_eq!(image, imported[0]);
    assert!(image.id.starts_with("sha256:"));
    assert_eq!(image.repo_digest, None);
    let config = &image.config;
    assert_eq!(
        (config.entrypoint.as_slice(), config.command.as_slice()),
        (&["/bin/app".into()][..], &["--serve".into()][..])
    );
    assert_eq!((config.working_directory.as_str(), config.user.as_str()), ("/srv", "app"));
    assert_eq!(config.stop_signal.as_deref(), Some("SIGINT"));

    // The topmost first, and whiteouts as overlayfs wants them.
    let [upper, lower] = image.layers.as_slice() else { panic!("{:?}", image.layers) };
    assert_eq!(fs::read_to_string(lower.join("etc/old")).unwrap(), "old");
    assert_eq!(fs::read_to_string(upper.join("etc/new")).unwrap(), "new");
    let whiteout = fs::symlink_metadata(upper.join("etc/old")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    assert_eq!(image.bytes, 49 + 43 + 3 + 3);

    assert_eq!(again.find(&image.id).await.unwrap().id, image.id);
    assert_eq!(again.find("localhost/app").await, None);
    assert_eq!(again.find("Not A Name").await, None);
    assert_eq!(fs::metadata(folder.path().join("store")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn archives_come_in_several_forms() {
    let folder = tempfile::tempdir().unwrap();
    let tar = tar_of(&two_layers("localhost/app:1"));
    let ids = |images: Vec<lazaret_images::Image>| {
        images.into_iter().map(|image| (image.name, image.id)).collect::<Vec<_>>()
    };
    let reference = open(&folder.path().join("reference"));
    let expected = ids(reference.import_reader(std::io::Cursor::new(tar.clone()), None).await.unwrap());

    // Compressed, as a whole.
    let compressed = open(&folder.path().join("compressed"));
    assert_eq!(
        ids(compressed.import_reader(std::io::Cursor::new(gzip(&tar)), None).await.unwrap()),
        expected
    );

    // A directory.
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    let status = std::process::Command::new("tar")
        .arg("-xf")
        .arg("-")
        .arg("-C")
        .arg(&layout)
        .stdin(std::process::Stdio::piped())
        .spawn();
    let mut child = status.unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &tar).unwrap();
    assert!(child.wait().unwrap().success());
    let directory = open(&folder.path().join("directory"));
    assert_eq!(ids(directory.import(&layout, None).await.unwrap()), expected);

    // Another name.
    let renamed = directory.import(&layout, Some("other")).await.unwrap();
    assert_eq!(
        (renamed[0].name.as_str(), &renamed[0].id),
        ("docker.io/library/other:latest", &expected[0].1)
    );
    assert_eq!(directory.list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_archive_of_docker_save_is_imported_with_all_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let layer = RawTar::default().file("hello", "world").end();
    let content = Content::new(std::slice::from_ref(&layer), <[u8]>::to_vec);
    let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": ["app:1", "app:2"], "Layers": ["one/layer.tar"]}]);
    let archive = RawTar::default()
        .entry("config.json", b'0', "", &content.config)
        .link("one/layer.tar", "../two/layer.tar")
        .entry("two/layer.tar", b'0', "", &layer)
        .entry("manifest.json", b'0', "", manifest.to_string().as_bytes())
        .end();
    let images = open(folder.path());
    let imported = images.import_reader(std::io::Cursor::new(archive), None).await.unwrap();
    let names: Vec<&str> = imported.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(names, ["docker.io/library/app:1", "docker.io/library/app:2"]);
    assert_eq!(imported[0].id, Digest::of(&content.config).to_string());
    assert_eq!(fs::read_to_string(imported[1].layers[0].join("hello")).unwrap(), "world");
}

#[tokio::test]
async fn a_root_file_system_is_an_image_of_one_layer() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("rootfs");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::write(root.join("bin/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    std::os::unix::fs::symlink("tool", root.join("bin/alias")).unwrap();
    fs::create_dir(root.join("tmp")).unwrap();
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let images = open(&folder.path().join("store"));
    let error = images.import(&root, None).await.unwrap_err().to_string();
    assert!(error.contains("give one"), "{error}");
    let imported = images.import(&root, Some("localhost/tool:1")).await.unwrap();
    let layer = &imported[0].layers[0];
    assert_eq!(imported[0].layers.len(), 1);
    assert_eq!(fs::metadata(layer.join("bin/tool")).unwrap().permissions().mode() & 0o7777, 0o4755);
    assert_eq!(fs::metadata(layer.join("tmp")).unwrap().permissions().mode() & 0o7777, 0o1777);
    assert_eq!(fs::read_link(layer.join("bin/alias")).unwrap(), Path::new("tool"));
    // The same directory gives the same image.
    let again = images.import(&root, Some("localhost/tool:2")).await.unwrap();
    assert_eq!(again[0].id, imported[0].id);
    assert_eq!(again[0].layers, imported[0].layers);
}

#[tokio::test]
async fn busybox_is_an_image_for_tests() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("busybox");
    fs::write(&program, "not really").unwrap();
    let layout = Layout::busybox("localhost/busybox:1", &program).unwrap();
    let images = open(&folder.path().join("store"));
    let image = images.import_reader(std::io::Cursor::new(tar_of(&layout)), None).await.unwrap().remove(0);
    assert_eq!(image.config.command, ["sh"]);
    assert_eq!(fs::read_link(image.layers[0].join("bin/sh")).unwrap(), Path::new("busybox"));
    assert_eq!(images.user(&image, "nobody").unwrap().uid, 65_534);
    assert_eq!(tar_of(&layout), tar_of(&layout.clone()));
}

#[tokio::test]
async fn users_are_looked_up_in_the_layers() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(&folder.path().join("store"));
    let import = async |layout: &Layout| {
        images.import_reader(std::io::Cursor::new(tar_of(layout)), None).await.unwrap().remove(0)
    };
    let image = import(&two_layers("localhost/users:1")).await;
    let user = |text: &str| images.user(&image, text).map_err(|error| error.to_string());
    let is = |uid, gid, groups: &[u32]| Ok(User { uid, gid, groups: groups.to_vec() });
    assert_eq!(user(""), is(0, 0, &[]));
    assert_eq!(user("app"), is(1000, 1001, &[44]));
    assert_eq!(user("1000"), is(1000, 1001, &[44]));
    assert_eq!(user("app:video"), is(1000, 44, &[]));
    assert_eq!(user("app:7"), is(1000, 7, &[]));
    assert_eq!(user("4711"), is(4711, 0, &[]));
    assert_eq!(user("4711:4712"), is(4711, 4712, &[]));
    assert_eq!(user("nobody"), Err("unable to find user nobody: no matching entries in passwd file".into()));
    assert_eq!(user("app:none"), Err("unable to find group none: no matching entries in group file".into()));

    // A link stays in the image, and a file that the upper layer hides is not there.
    let outside = folder.path().join("passwd");
    fs::write(&outside, "evil:x:666:666::/:/bin/sh\n").unwrap();
    let config = ImageConfig::default();
    let linked = Layout::new("localhost/users:2", config.clone()).layer([
        file("real/passwd", "linked:x:5:6::/:/bin/sh\n"),
        ("etc".to_owned(), Node::Link { target: "../../real".to_owned() }),
    ]);
    assert_eq!(images.user(&import(&linked).await, "linked").unwrap().uid, 5);
    let escaping = Layout::new("localhost/users:3", config.clone())
        .layer([("etc/passwd".to_owned(), Node::Link { target: outside.to_string_lossy().into_owned() })]);
    assert!(images.user(&import(&escaping).await, "evil").is_err());
    let looping = Layout::new("localhost/users:4", config.clone())
        .layer([("etc/passwd".to_owned(), Node::Link { target: "/etc/passwd".to_owned() })]);
    assert!(
        images
            .user(&import(&looping).await, "root")
            .unwrap_err()
            .to_string()
            .contains("too many levels of links")
    );
    let hidden = two_layers("localhost/users:5").layer([("etc".to_owned(), Node::Whiteout)]);
    assert!(images.user(&import(&hidden).await, "app").is_err());
}

#[tokio::test]
async fn a_layer_keeps_what_lower_layers_say_about_its_directories() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(folder.path());
    let layout = Layout::new("localhost/links:1", ImageConfig::default())
        .layer([
            ("tmp".to_owned(), Node::Directory { mode: 0o1777 }),
            ("lib".to_owned(), Node::Link { target: "usr/lib".to_owned() }),
            file("usr/lib/base", "base"),
        ])
        .layer([file("tmp/x", "x"), file("lib/more", "more")]);
    let image = images.import_reader(std::io::Cursor::new(tar_of(&layout)), None).await.unwrap().remove(0);
    let upper = &image.layers[0];
    // A directory in the upper layer gives the merged one its mode.
    assert_eq!(fs::metadata(upper.join("tmp")).unwrap().permissions().mode() & 0o7777, 0o1777);
    // `/lib` is a link below: a directory here would hide all libraries.
    assert_eq!(fs::read_to_string(upper.join("usr/lib/more")).unwrap(), "more");
    assert!(fs::symlink_metadata(upper.join("lib")).is_err());
}

#[tokio::test]
async fn what_is_not_what_it_says_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let images = open(&root);
    let good = tar_of(&two_layers("localhost/app:1"));
    for change in [0, 1, 2] {
        let mut bad = good.clone();
        match change {
            // One bit of a file in a layer, which is found by its digest.
            0 => {
                let at = bad.windows(9).position(|bytes| bytes == b"app:x:100").unwrap();
                bad[at + 8] ^= 1;
            }
            1 => bad.truncate(good.len() / 2),
            _ => bad.truncate(3_000),
        }
        let error =
            images.import_reader(std::io::Cursor::new(bad), Some("localhost/bad:1")).await.unwrap_err();
        assert!(matches!(error, ImageError::Digest { .. } | ImageError::Invalid(_)), "{error}");
        assert_eq!(images.list().await.unwrap(), []);
    }
    let left = |name: &str| fs::read_dir(root.join(name)).unwrap().count();
    assert_eq!(left("ingest"), 0);
    // A lower layer that was complete may stay until the next removal or start.
    drop(images);
    let images = open(&root);
    assert_eq!((left("layers"), left("blobs"), left("ingest")), (0, 0, 0));
    assert!(images.import_reader(std::io::Cursor::new(good), None).await.is_ok());
}

#[tokio::test]
async fn a_crash_in_the_middle_leaves_nothing_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(folder.path());
    images.import_reader(std::io::Cursor::new(tar_of(&two_layers("localhost/app:1"))), None).await.unwrap();
    // Leftovers of a process that died: a draft, a layer without a name, a blob without a name.
    fs::create_dir_all(folder.path().join("ingest/draft/root/usr")).unwrap();
    fs::create_dir_all(folder.path().join(format!("layers/{}/root", "0".repeat(64)))).unwrap();
    fs::write(folder.path().join(format!("blobs/{}", "1".repeat(64))), "{").unwrap();
    fs::write(folder.path().join("index.json.draft"), "{ half").unwrap();
    let again = open(folder.path());
    let left = |name: &str| fs::read_dir(folder.path().join(name)).unwrap().count();
    assert_eq!((left("ingest"), left("layers"), left("blobs")), (0, 2, 1));
    assert!(again.find("localhost/app:1").await.is_some());
}

#[tokio::test]
async fn removal_keeps_what_others_use() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(folder.path());
    let import = async |layout: Layout| {
        images.import_reader(std::io::Cursor::new(tar_of(&layout)), None).await.unwrap().remove(0)
    };
    let one = import(two_layers("localhost/one:1")).await;
    let two = import(two_layers("localhost/two:1").layer([file("more", "more")])).await;
    assert_eq!(one.layers, two.layers[1..]);
    images.remove("localhost/one:1").await.unwrap();
    assert!(matches!(images.remove("localhost/one:1").await, Err(ImageError::NotFound(_))));
    assert!(one.layers.iter().all(|layer| layer.is_dir()));

    images.set_in_use(&BTreeSet::from([two.id.clone()])).await.unwrap();
    // Also for another process, the command line's for instance.
    let other = open(folder.path());
    assert!(matches!(other.remove("localhost/two:1").await, Err(ImageError::InUse(_))));
    assert_eq!(other.prune().await.unwrap().names, Vec::<String>::new());
    images.set_in_use(&BTreeSet::new()).await.unwrap();
    let collected = other.prune().await.unwrap();
    assert_eq!(collected.names, ["localhost/two:1"]);
    assert_eq!(collected.bytes, two.bytes);
    assert_eq!(fs::read_dir(folder.path().join("layers")).unwrap().count(), 0);
}

#[tokio::test]
async fn garbage_is_collected_only_above_the_threshold_and_never_what_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let images = open(folder.path());
    let import = async |name: &str, content: &str| {
        let layout = Layout::new(name, ImageConfig::default()).layer([file("a", content)]);
        images.import_reader(std::io::Cursor::new(tar_of(&layout)), None).await.unwrap().remove(0)
    };
    let used = import("localhost/used:1", "used").await;
    import("localhost/unused:1", "unused").await;
    let in_use = BTreeSet::from([used.id.clone()]);
    let never = Thresholds { high_percent: 101, ..Thresholds::all() };
    assert_eq!(images.collect_garbage(&in_use, never).await.unwrap().names, Vec::<String>::new());
    let young = Thresholds { unused_for: std::time::Duration::from_secs(3_600), ..Thresholds::all() };
    assert_eq!(images.collect_garbage(&in_use, young).await.unwrap().names, Vec::<String>::new());
    assert_eq!(
        images.collect_garbage(&in_use, Thresholds::all()).await.unwrap().names,
        ["localhost/unused:1"]
    );
    assert!(images.find("localhost/used:1").await.is_some());
    assert!(used.layers[0].join("a").is_file());
}

#[tokio::test]
async fn limits_hold() {
    let folder = tempfile::tempdir().unwrap();
    let import = async |limits: Limits, archive: Vec<u8>| {
        let images = Images::open(folder.path(), limits).unwrap();
        let error = images
            .import_reader(std::io::Cursor::new(archive), Some("localhost/a:1"))
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(images.list().await.unwrap(), []);
        error
    };
    let limits = Limits { entries_max: 2, ..Limits::default() };
    let error = import(limits, RawTar::default().file("a", "").file("b", "").file("c", "").end()).await;
    assert_eq!(error, "the number of files in a layer exceeds the limit of 2");
    let limits = Limits { unpacked_bytes_max: 20_000, ..Limits::default() };
    let error =
        import(limits, RawTar::default().file("a", &"x".repeat(9_000)).file("b", &"x".repeat(12_000)).end())
            .await;
    assert!(error.contains("exceeds the limit of 20000"), "{error}");
    let limits = Limits { layers_max: 1, ..Limits::default() };
    let error = import(limits, tar_of(&two_layers("localhost/a:1"))).await;
    assert_eq!(error, "the number of layers exceeds the limit of 1");

    // A size that is not there is not reserved either.
    let mut lying = RawTar::default();
    lying.push_sized(b"a", b'0', b"", 0o644, b"short", 0o7_777_777_777);
    let error = import(Limits::default(), lying.end()).await;
    assert_eq!(error, "the archive is truncated");
    let deep = format!("{}x", "d/".repeat(300));
    let error = import(Limits::default(), RawTar::default().file(&deep, "").end()).await;
    assert!(error.contains("more than 256 directories"), "{error}");
    let long = "n".repeat(256);
    let error = import(Limits::default(), RawTar::default().file(&long, "").end()).await;
    assert!(error.contains("more than 255 bytes"), "{error}");
    let endless = "n/".repeat(3_000);
    let error = import(Limits::default(), RawTar::default().file(&endless, "").end()).await;
    assert!(error.contains("exceeds the limit of 4097"), "{error}");
}

#[tokio::test]
async fn a_bomb_is_defused() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { ratio_max: 10, ..Limits::default() };
    let images = Images::open(folder.path(), limits).unwrap();
    // 300 MiB of zeros, compressed to less than one.
    let layer = RawTar::default().entry("zeros", b'0', "", &vec![0; 300 << 20]).end();
    let content = Content::new(&[layer], gzip);
    assert!(content.layers[0].len() < 4 << 20);
    let digest = |bytes: &[u8]| format!("blobs/sha256/{}", Digest::of(bytes).hex());
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": Digest::of(&content.manifest).to_string(), "size": content.manifest.len()},
    ]});
    let archive = RawTar::default()
        .file("oci-layout", "{}")
        .file("index.json", &index.to_string())
        .entry(&digest(&content.manifest), b'0', "", &content.manifest)
        .entry(&digest(&content.config), b'0', "", &content.config)
        .entry(&digest(&content.layers[0]), b'0', "", &content.layers[0])
        .end();
    let error = images
        .import_reader(std::io::Cursor::new(archive), Some("localhost/bomb:1"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("compressed more than 10 times"), "{error}");
    assert_eq!(fs::read_dir(folder.path().join("ingest")).unwrap().count(), 0);
}
