//! Backups, restores, checks and the modes of files, on a real file system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{
    ArchiveError, EncryptionKey, EncryptionKeys, Op, OpenError, Options, RangeOptions, Store, back_up,
    restore, verify,
};

fn encrypted() -> Options {
    let key = EncryptionKey::generate().unwrap();
    Options { encryption: EncryptionKeys::parse(&key.line(), "keys").unwrap(), ..Options::default() }
}

fn fill(store: &Store, from: usize, to: usize) -> u64 {
    (from..to)
        .map(|n| {
            store.txn_blocking(vec![Op::create(format!("/n/{n:05}"), vec![b'x'; 300])]).unwrap().revision
        })
        .fold(None, |_, revision| Some(revision))
        .unwrap()
}

fn modes(path: &Path) -> Vec<(String, u32)> {
    let mut found = vec![(".".to_owned(), path.metadata().unwrap().permissions().mode() & 0o7777)];
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        found.push((entry.file_name().into_string().unwrap(), mode));
    }
    found
}

#[test]
fn everything_is_for_its_owner_alone_and_what_was_not_is_made_so() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("store");
    let store = Store::open(&dir, Options::default()).unwrap();
    fill(&store, 0, 3);
    store.snapshot_blocking().unwrap();
    let is_private = |(name, mode): &(String, u32)| *mode == if name == "." { 0o700 } else { 0o600 };
    assert!(modes(&dir).len() >= 4 && modes(&dir).iter().all(is_private), "{:?}", modes(&dir));
    store.close();
    for entry in fs::read_dir(&dir).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let store = Store::open(&dir, Options::default()).unwrap();
    assert!(modes(&dir).iter().all(is_private), "{:?}", modes(&dir));
    let backup = above.path().join("backup");
    back_up(&dir, &backup, &Options::default()).unwrap();
    assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    drop(store);
}

#[test]
fn a_backup_of_a_running_store_restores_to_what_it_held() {
    for options in [Options::default(), encrypted()] {
        let above = tempfile::tempdir().unwrap();
        let (dir, backup, other) =
            (above.path().join("store"), above.path().join("backup"), above.path().join("restored"));
        let store = Store::open(&dir, options.clone()).unwrap();
        let revision = fill(&store, 0, 50);
        let report = verify(&dir, &options).unwrap();
        assert_eq!((report.revision, report.items, report.tail_bytes), (revision, 50, 0));
        let made = back_up(&dir, &backup, &options).unwrap();
        assert_eq!((made.revision, made.items), (revision, 50));
        assert!(matches!(back_up(&dir, &backup, &options), Err(ArchiveError::Exists(_))));
        fill(&store, 50, 60);

        assert!(matches!(restore(&backup, &dir, 0, &options), Err(ArchiveError::Exists(_))));
        let restored = restore(&backup, &other, 1_000, &options).unwrap();
        assert_eq!((restored.revision, restored.items), (revision + 1_000, 50));
        let second = Store::open(&other, options).unwrap();
        let all = RangeOptions::default();
        assert_eq!(second.revision(), revision + 1_000);
        assert_eq!(
            second.range("/", &all).unwrap().items,
            store.range("/", &RangeOptions { at: Some(revision), ..all }).unwrap().items
        );
        assert_eq!(fill(&second, 50, 51), revision + 1_001);
    }
}

#[test]
fn backups_and_checks_succeed_while_a_store_writes_and_replaces_its_files() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("store");
    let options = Options { segment_bytes_max: 5_000, snapshot_log_bytes_min: 12_000, ..Options::default() };
    let store = Store::open(&dir, options.clone()).unwrap();
    fill(&store, 0, 10);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| fill(&store, 10, 1_500));
        let mut last = 0;
        let mut rounds = 0;
        while !writer.is_finished() || rounds < 3 {
            let acknowledged = store.revision();
            let report = verify(&dir, &options).unwrap();
            assert!(report.revision >= acknowledged.max(last), "{report:?}");
            assert_eq!(report.items, report.revision - 1, "one state, each revision made one item");
            last = report.revision;
            rounds += 1;
            let backup = above.path().join(format!("backup-{rounds}"));
            let made = back_up(&dir, &backup, &options).unwrap();
            assert!(made.revision >= last && made.items == made.revision - 1);
            fs::remove_file(backup).unwrap();
        }
    });
    assert!(store.stats().snapshots > 0);
}

#[test]
fn a_damaged_backup_leaves_no_half_restored_store() {
    let above = tempfile::tempdir().unwrap();
    let (dir, backup, other) =
        (above.path().join("store"), above.path().join("backup"), above.path().join("restored"));
    let store = Store::open(&dir, Options::default()).unwrap();
    fill(&store, 0, 5);
    back_up(&dir, &backup, &Options::default()).unwrap();
    let mut bytes = fs::read(&backup).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&backup, bytes).unwrap();
    let error = restore(&backup, &other, 0, &Options::default()).unwrap_err();
    assert!(matches!(error, ArchiveError::Open(OpenError::Damaged { .. })), "{error}");
    assert!(!other.exists());
    let missing = verify(&above.path().join("nowhere"), &Options::default()).unwrap_err();
    assert!(matches!(missing, ArchiveError::NoStore(_)), "{missing}");
}

/// A store that the previous version of the format wrote: the same files with a shorter header.
#[test]
fn files_of_the_previous_format_are_read_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let revision = fill(&store, 0, 5);
    store.close();
    let path = dir.path().join("log-0000000001");
    let new = fs::read(&path).unwrap();
    let mut old = crate::log::version_1_header(1, 1, 1);
    old.extend_from_slice(&new[144..]);
    fs::write(&path, old).unwrap();
    let encrypted = {
        let key = EncryptionKey::generate().unwrap();
        let text = format!("{}\nidentity", key.line());
        Options { encryption: EncryptionKeys::parse(&text, "keys").unwrap(), ..Options::default() }
    };
    for (round, options) in
        [Options::default(), Options::default(), encrypted.clone(), encrypted].into_iter().enumerate()
    {
        let store = Store::open(dir.path(), options).unwrap();
        assert_eq!(store.revision(), revision + round as u64);
        fill(&store, 5 + round, 6 + round);
        store.close();
    }
}
