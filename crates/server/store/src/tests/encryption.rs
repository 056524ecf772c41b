//! Encryption at rest: turned on, rotated and turned off; wrong keys; forged and moved frames; no nonce twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rig::{Rig, random_group, small_options};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::fault::{Fault, FaultyDisk, Random};
use crate::keys::{EncryptionKey, EncryptionKeys};
use crate::{Op, Options, Store};

const SECRET: &str = "hunter2-hunter2-hunter2";

fn options(entries: &[&str]) -> Options {
    let encryption = EncryptionKeys::parse(&entries.join("\n"), "/etc/keys").unwrap();
    Options { encryption, ..small_options() }
}

fn key() -> String {
    EncryptionKey::generate().unwrap().line()
}

fn id(line: &str) -> &str {
    line.split(' ').next().unwrap()
}

fn bytes_of(disk: &FaultyDisk) -> Vec<(String, Vec<u8>)> {
    let read = |(name, size): (String, usize)| {
        let mut bytes = vec![0; size];
        disk.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disk.sizes().into_iter().map(read).collect()
}

fn holds(disk: &FaultyDisk, text: &str) -> bool {
    bytes_of(disk).iter().any(|(_, bytes)| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

fn written(options: &Options, key: &str) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    let mut rig = Rig::open(&disk, options).unwrap();
    rig.commit(vec![vec![Op::create(key, SECRET)]]).remove(0).unwrap();
    disk
}

fn snapshot(disk: &FaultyDisk, options: &Options) {
    let store = Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    store.snapshot_blocking().unwrap();
    store.close();
}

#[test]
fn neither_keys_nor_values_are_readable_in_an_encrypted_store() {
    assert!(holds(&written(&small_options(), "/secrets/a"), SECRET), "the search finds what is there");
    let disk = written(&options(&[&key()]), "/secrets/a");
    assert!(!holds(&disk, SECRET) && !holds(&disk, "/secrets/a"));
}

#[test]
fn encryption_is_turned_on_rotated_and_turned_off_without_losing_anything() {
    let (old, new) = (key(), key());
    let disk = written(&small_options(), "/a");
    for (options, encrypted) in [
        (options(&[&old, "identity"]), true),
        (options(&[&old]), true),
        (options(&[&new, &old]), true),
        (options(&[&new]), true),
        (options(&["identity", &new]), false),
        (small_options(), false),
    ] {
        let rig = Rig::open(&disk, &options).unwrap();
        assert_eq!(rig.shared.get(b"/a").unwrap().value, SECRET);
        drop(rig);
        snapshot(&disk, &options);
        assert_eq!(holds(&disk, SECRET), !encrypted, "{options:?}");
    }
}

#[test]
fn a_wrong_or_missing_key_is_named_and_changes_nothing() {
    let (right, other) = (key(), key());
    let same_id = format!("{} {}", id(&right), other.split(' ').nth(1).unwrap());
    let disk = written(&options(&[&right]), "/a");
    // A torn frame at the end, which opening would cut off.
    let (name, size) = disk.sizes().pop_last().unwrap();
    disk.open(&name).unwrap().write_at(size as u64, b"\xf7LZ").unwrap();
    let before = bytes_of(&disk);
    for (options, expected) in [
        (small_options(), "no key file was given".to_owned()),
        (options(&[&other]), "/etc/keys does not hold that key".into()),
        (options(&[&same_id]), "the key of that id in /etc/keys is another one".into()),
    ] {
        let error = Rig::open(&disk, &options).err().unwrap();
        let text = error.to_string();
        assert!(matches!(&error, OpenError::Key { id: found, .. } if found == id(&right)), "{text}");
        assert_eq!(text, format!("log-0000000001 is encrypted with key {}: {expected}", id(&right)));
        assert_eq!(bytes_of(&disk), before);
    }
    assert!(Rig::open(&disk, &options(&[&right])).is_ok());
}

#[test]
fn what_is_not_encrypted_is_read_only_if_the_key_file_says_so() {
    let disk = written(&small_options(), "/a");
    let before = bytes_of(&disk);
    let error = Rig::open(&disk, &options(&[&key()])).err().unwrap();
    assert!(matches!(error, OpenError::NotEncrypted { .. }), "{error}");
    assert_eq!(bytes_of(&disk), before);
}

/// A frame whose checksum was made to fit is still not taken: the tag does not fit.
#[test]
fn a_frame_of_another_file_is_refused() {
    let key = key();
    let disk = written(&options(&[&key]), "/a");
    let other = written(&options(&[&key]), "/b");
    let (_, theirs) = bytes_of(&other).remove(0);
    let mut file = disk.open("log-0000000001").unwrap();
    file.write_at(144, &theirs[144..]).unwrap();
    let error = Rig::open(&disk, &options(&[&key])).err().unwrap();
    assert!(
        matches!(&error, OpenError::Damaged { what, .. } if what.contains("not encrypted with the key of its file")),
        "{error}"
    );
}

/// Two ciphertexts under one key and nonce would betray both. The key is the file's (its salt), the nonce the frame's
/// number: over crashes, torn tails and failures, no two different frames of one salt have one number.
#[test]
fn no_nonce_is_used_twice_under_one_key() {
    let options = options(&[&key()]);
    let mut seen: BTreeSet<(Vec<u8>, u64, Vec<u8>)> = BTreeSet::new();
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut disk = FaultyDisk::new(seed);
        for _ in 0..12 {
            let step = disk.steps() + random.below(25) as u64;
            let fault = [Fault::Crash, Fault::Refuse(std::io::ErrorKind::StorageFull)][random.below(2)];
            disk.plan(step, fault);
            if let Ok(mut rig) = Rig::open(&disk, &options) {
                for _ in 0..10 {
                    rig.commit(random_group(&mut random, &rig.shared.clone()));
                    if rig.shared.failure().is_some() {
                        collect_frames(&disk, &mut seen);
                        rig.heal();
                    }
                }
            }
            disk = disk.after_kill();
            collect_frames(&disk, &mut seen);
        }
    }
    let nonces: BTreeSet<_> = seen.iter().map(|(salt, seq, _)| (salt, seq)).collect();
    assert!(seen.len() > 1_000, "{}", seen.len());
    assert_eq!(nonces.len(), seen.len(), "a nonce occurs with two different frames");
}

/// Every frame header that is on the disk, whole or torn, with its file's salt and what it says of its payload.
fn collect_frames(disk: &FaultyDisk, seen: &mut BTreeSet<(Vec<u8>, u64, Vec<u8>)>) {
    let disk = disk.after_kill();
    for (_, bytes) in bytes_of(&disk).into_iter().filter(|(_, bytes)| bytes.len() > 144) {
        let salt = bytes[88..120].to_vec();
        let mut at = 144;
        while let Some(header) =
            bytes.get(at..at + 36).filter(|header| header[..4] == [0xf7, b'L', b'Z', 0x96])
        {
            let number = |range: std::ops::Range<usize>| {
                header[range].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
            };
            // Length, checksum and base stand for the payload: two equal ones are one frame.
            seen.insert((salt.clone(), number(16..24), header[8..32].to_vec()));
            at += 36 + usize::try_from(number(8..12)).unwrap() + 4;
        }
    }
}
