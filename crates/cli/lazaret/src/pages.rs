//! Huge pages, for a process that is large: they make a large store faster, and a small one eight times as large as what is in it.

use std::{fs, path::Path, time::Duration};

/// With this much in memory, or on disk at the start, huge pages pay.
const LARGE_BYTES: u64 = 48 << 20;
/// How often a small process looks whether it is large by now. One that is stops looking.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Begins with small pages, unless the files in the folder are large already: they are about to be read into memory.
pub(crate) fn start(files: Option<&Path>) {
    if files.map_or(0, bytes_in) < LARGE_BYTES {
        use_huge(false);
    }
}

/// Changes to huge pages once this process is large. Never ends, so that it can run beside what does.
pub(crate) async fn follow() {
    follow_by(resident_bytes).await;
    std::future::pending().await
}

async fn follow_by(resident_bytes: impl Fn() -> Option<u64>) {
    while resident_bytes().is_some_and(|bytes| bytes < LARGE_BYTES) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    use_huge(true);
}

fn bytes_in(folder: &Path) -> u64 {
    // A folder that is not there holds nothing.
    let Ok(files) = fs::read_dir(folder) else { return 0 };
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Memory of its own: pages of the program are not counted. Unknown where there is no `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(target_os = "linux")]
fn use_huge(huge: bool) {
    // Where it cannot be set, pages are as the system has them.
    let _ = rustix::thread::disable_transparent_huge_pages(!huge);
}

#[cfg(not(target_os = "linux"))]
fn use_huge(_huge: bool) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::cell::Cell;

    use rustix::thread::transparent_huge_pages_are_disabled;

    use super::*;

    /// One test, for there is one process.
    #[tokio::test(start_paused = true)]
    async fn pages_are_huge_once_there_is_much_to_hold() {
        let folder = tempfile::tempdir().unwrap();
        start(Some(&folder.path().join("absent")));
        assert!(transparent_huge_pages_are_disabled().unwrap());
        fs::File::create(folder.path().join("log")).unwrap().set_len(LARGE_BYTES).unwrap();
        use_huge(true);
        start(Some(folder.path()));
        assert!(!transparent_huge_pages_are_disabled().unwrap());

        use_huge(false);
        let looked = Cell::new(0);
        follow_by(|| {
            assert!(transparent_huge_pages_are_disabled().unwrap(), "it is small so far");
            looked.set(looked.get() + 1);
            Some(if looked.get() < 10 { LARGE_BYTES - 1 } else { LARGE_BYTES })
        })
        .await;
        assert_eq!(looked.get(), 10);
        assert!(!transparent_huge_pages_are_disabled().unwrap());
        assert!(resident_bytes().unwrap() > 0);
    }
}
