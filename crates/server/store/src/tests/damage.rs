//! Damage that no crash explains is reported with file and offset, never read around.

use super::rig::{Rig, random_group, small_options};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::fault::{FaultyDisk, Random};

/// A closed store with a snapshot and some segments after it.
fn settled(seed: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let mut random = Random(seed);
    let mut rig = Rig::open(&disk, &small_options()).unwrap();
    // Several segments, the last of which holds commits too.
    let enough = |disk: &FaultyDisk| {
        let sizes = disk.sizes();
        let segments: Vec<_> = sizes.iter().filter(|(name, _)| name.starts_with("log-")).collect();
        segments.len() >= 3 && segments.last().is_some_and(|(_, size)| **size > 1_000)
    };
    while rig.shared.stats(0).snapshots == 0 || !enough(&disk) {
        let group = random_group(&mut random, &rig.shared);
        assert!(rig.shared.failure().is_none());
        rig.commit(group);
    }
    disk.after_power_loss(seed)
}

#[test]
fn any_flipped_bit_is_reported_with_its_file() {
    for seed in 0..4 {
        let disk = settled(seed);
        let mut random = Random(seed);
        for (name, size) in disk.sizes() {
            // Every bit of the headers, then every few bytes a bit.
            let mut bit = 0;
            while bit < size * 8 {
                disk.flip_bit(&name, bit);
                match Rig::open(&disk.after_kill(), &small_options()) {
                    Err(OpenError::Damaged { file, offset, .. }) => {
                        assert_eq!(file, name, "bit {bit}");
                        assert!(offset <= bit as u64 / 8, "offset {offset} bit {bit}");
                    }
                    Err(OpenError::Unsupported { .. }) => {
                        panic!("a version is believed without its checksum")
                    }
                    other => panic!("{name} bit {bit}: {:?}", other.map(|rig| rig.shared.revision())),
                }
                disk.flip_bit(&name, bit);
                bit += if bit < 100 * 8 { 1 } else { 1 + random.below(64) };
            }
        }
        assert!(Rig::open(&disk, &small_options()).is_ok(), "all bits are back in their places");
    }
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let disk = settled(5);
    let names: Vec<String> = disk.sizes().into_keys().collect();
    let last_segment = names.iter().rfind(|name| name.starts_with("log-")).unwrap();
    for name in &names {
        let without = disk.after_kill();
        without.remove(name).unwrap();
        match Rig::open(&without, &small_options()) {
            Err(OpenError::Missing { file, .. }) if name.starts_with("snapshot-") => {
                assert_eq!(file, "log-0000000001")
            }
            Err(OpenError::Missing { file, .. }) => assert_eq!(file, *name),
            // A log whose end was cut off cleanly looks like a log that was never longer.
            Ok(_) => assert_eq!(name, last_segment),
            Err(other) => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn a_cut_segment_in_the_middle_is_damage() {
    let disk = settled(6);
    let first = disk.sizes().into_iter().find(|(name, _)| name.starts_with("log-")).unwrap();
    let mut file = disk.open(&first.0).unwrap();
    file.set_size(first.1 as u64 - 1).unwrap();
    let error = Rig::open(&disk, &small_options()).err().unwrap();
    assert!(matches!(&error, OpenError::Damaged { file, .. } if *file == first.0), "{error}");
}

#[test]
fn files_of_others_are_left_alone() {
    let disk = settled(7);
    for name in ["notes.txt", "log-", "log-old", "other.tmp", "lock"] {
        disk.create(name).unwrap();
    }
    drop(Rig::open(&disk, &small_options()).unwrap());
    for name in ["notes.txt", "log-", "log-old", "other.tmp", "lock"] {
        assert!(disk.sizes().contains_key(name), "{name}");
    }
}
