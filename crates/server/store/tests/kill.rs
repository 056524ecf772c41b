//! A process killed with SIGKILL in the middle of its work: what it reported as acknowledged is there.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use lazaret_store::{Op, Options, Store};

const DIR: &str = "LAZARET_STORE_KILL_TEST_DIR";

fn options() -> Options {
    Options { segment_bytes_max: 30_000, snapshot_log_bytes_min: 60_000, ..Options::default() }
}

/// The process to be killed: does nothing unless the test below started it.
#[test]
fn writes_until_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::open(dir, options()).unwrap();
    let mut count = store.count("/");
    loop {
        let keys = [format!("/{count:08}"), format!("/{:08}", count + 1)];
        store
            .txn_blocking(keys.iter().map(|key| Op::create(key.as_str(), vec![b'x'; 500])).collect())
            .unwrap();
        count += 2;
        println!("acknowledged {count}");
    }
}

#[test]
fn a_killed_process_loses_nothing_it_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut reported = 0;
    for round in 1..=8_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writes_until_killed", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let count = |line: String| line.strip_prefix("acknowledged ")?.parse::<usize>().ok();
        let enough = reported + 60 * round;
        reported = lines.by_ref().filter_map(count).find(|count| *count >= enough).expect("the child writes");
        child.kill().unwrap();
        child.wait().unwrap();
        reported = lines.filter_map(count).last().unwrap_or(reported);

        let store = Store::open(dir.path(), options()).unwrap();
        let held = store.count("/");
        assert!(held == reported || held == reported + 2, "reported {reported}, held {held}");
        assert_eq!(store.revision(), 1 + held as u64);
        reported = held;
    }
}
