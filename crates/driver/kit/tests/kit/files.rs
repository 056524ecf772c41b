//! Files that outlive a crash.

use std::{collections::BTreeMap, fs};

use lazaret_driver::{FileError, read_bytes, read_file, write_bytes, write_file};

#[test]
fn what_is_read_is_what_was_written_last() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    assert_eq!(read_bytes(&path, 1 << 20).unwrap(), None);
    for length in [10, 5_000, 4_096, 0, 1, 9_000, 3] {
        let text = vec![b'x'; length];
        write_bytes(&path, &text).unwrap();
        let found = read_bytes(&path, 1 << 20).unwrap().unwrap();
        assert_eq!(found.trim_ascii_end(), text, "{length}");
    }
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        2,
        "the file and the one that it changes places with"
    );
    // The other one is damaged or lost: it is only written.
    let other = root.path().join(".state.new");
    fs::write(&other, "rubbish").unwrap();
    write_bytes(&path, b"after").unwrap();
    assert_eq!(read_bytes(&path, 1 << 20).unwrap().unwrap().trim_ascii_end(), b"after");
    fs::remove_file(&other).unwrap();
    write_bytes(&path, b"again").unwrap();
    assert_eq!(read_bytes(&path, 1 << 20).unwrap().unwrap().trim_ascii_end(), b"again");
    // No more is read than was asked for.
    assert_eq!(read_bytes(&path, 2).unwrap().unwrap(), b"ag");
}

#[test]
fn a_file_that_cannot_be_understood_is_named_and_never_taken_for_an_empty_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("claims.json");
    let read = || read_file::<BTreeMap<String, u32>>(&path);
    assert!(read().unwrap().is_empty());
    let claims = BTreeMap::from([("a".to_owned(), 7)]);
    write_file(&path, &claims).unwrap();
    assert_eq!(read().unwrap(), claims);
    for text in ["", "{", "[]", r#"{"a":"b"}"#] {
        fs::write(&path, text).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("claims.json") && error.contains("drain the node"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(read(), Err(FileError::Io { .. })));
    assert!(matches!(write_file(&path.join("no/such"), &claims), Err(FileError::Io { .. })));
}
