//! Thresholds of pressure, as a person writes them and as a node compares them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use lazaret_agent::{Signal, Threshold, Thresholds, parse_eviction_hard};
use lazaret_pods::{Level, Levels};

#[test]
fn thresholds_are_read_as_kubelet_reads_them() {
    let none: &[(Signal, Threshold)] = &[];
    let rows: &[(&str, &[(Signal, Threshold)])] = &[
        ("", none),
        ("memory.available<100Mi", &[(Signal::MemoryAvailable, Threshold::amount(100 << 20))]),
        (
            " memory.available < 1.5Gi , nodefs.available<10%,",
            &[
                (Signal::MemoryAvailable, Threshold::amount(3 << 29)),
                (Signal::NodefsAvailable, Threshold::millionths(100_000)),
            ],
        ),
        ("nodefs.inodesFree<7.5%", &[(Signal::NodefsInodesFree, Threshold::millionths(75_000))]),
        ("pid.available<1k", &[(Signal::PidAvailable, Threshold::amount(1_000))]),
        ("nodefs.available<0%,nodefs.inodesFree<0,memory.available<100%", none),
    ];
    for (text, expected) in rows {
        let found = parse_eviction_hard(text).unwrap();
        assert_eq!(found, Thresholds(expected.iter().copied().collect()), "{text:?}");
    }
}

#[test]
fn what_is_no_threshold_is_named_with_what_to_do() {
    for (text, words) in [
        ("memory.available", &["\"memory.available\"", "SIGNAL<QUANTITY"][..]),
        ("memory.available>1Gi", &["memory.available>1Gi", "SIGNAL<QUANTITY"]),
        ("imagefs.available<15%", &["\"imagefs.available\" is not watched", "nodefs.inodesFree"]),
        ("memory.free<1Gi", &["\"memory.free\"", "memory.available, nodefs.available"]),
        ("pid.available<10%,nodefs.available<-1%", &["\"nodefs.available<-1%\"", "0% to 100%"]),
        ("nodefs.available<101%", &["0% to 100%"]),
        ("nodefs.available<NaN%", &["0% to 100%"]),
        ("memory.available<-1Mi", &["\"-1Mi\"", "100Mi for instance"]),
        ("memory.available<much", &["\"much\"", "100Mi for instance"]),
        ("memory.available<", &["\"\"", "100Mi for instance"]),
        ("memory.available<1e30", &["\"1e30\""]),
        ("memory.available<1Mi,memory.available<2Mi", &["already", "once"]),
    ] {
        let error = parse_eviction_hard(text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
    let long = "memory.available<1Mi,".repeat(1_000);
    assert!(parse_eviction_hard(&long).is_err());
}

/// Signals of which there is too little, one row a case: the free amount, the capacity.
#[test]
fn a_node_is_short_of_what_is_below_its_threshold() {
    const GIB: u64 = 1 << 30;
    for (signal, available, capacity, is_short) in [
        (Signal::MemoryAvailable, 100 << 20, 64 * GIB, false),
        (Signal::MemoryAvailable, (100 << 20) - 1, 64 * GIB, true),
        // Both less than a tenth and less than 5 GiB.
        (Signal::NodefsAvailable, 4 * GIB, 30 * GIB, false),
        (Signal::NodefsAvailable, 6 * GIB, 1_000 * GIB, false),
        (Signal::NodefsAvailable, 4 * GIB, 1_000 * GIB, true),
        (Signal::NodefsInodesFree, 49, 1_000, true),
        (Signal::NodefsInodesFree, 50, 1_000, false),
        // A file system without inodes is short of none.
        (Signal::NodefsInodesFree, 0, 0, false),
        (Signal::PidAvailable, 99, 1_000, true),
    ] {
        let levels = Levels::from([(signal, Level { available, capacity })]);
        let crossed = Thresholds::default().crossed(&levels);
        assert_eq!(!crossed.is_empty(), is_short, "{signal:?} {available} of {capacity}");
    }
    let level = Level { available: 3 << 30, capacity: 1_000 * GIB };
    let crossed = Thresholds::default().crossed(&Levels::from([(Signal::NodefsAvailable, level)]));
    assert_eq!(crossed[0].text(), "nodefs.available is 3Gi of 1000Gi, below the threshold 5Gi");
}
