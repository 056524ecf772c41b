//! A loss of power on a real file system and a real block device: what was acknowledged is there.
//!
//! The store writes to ext4 on a loop device. Its image lies on xfs, which copies a file at one instant by sharing its
//! blocks: such a copy holds what had reached the device, as after a loss of power, and nothing of what the kernel
//! still kept in memory. The copy is mounted, ext4 replays its journal, and the store is opened.
//!
//! Needs root, loop devices, `mkfs.xfs` and `mkfs.ext4`; says NOT RUN where one is missing. The order in which a device
//! may lose its own cache is tried by `src/tests/crash.rs` on a disk in memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use lazaret_store::{Op, Options, Store};

const DIR: &str = "LAZARET_STORE_POWER_TEST_DIR";

/// Losses of power in one run.
const CUTS: usize = 12;

/// Small, so that segments, snapshots and removals are cut as well.
fn options() -> Options {
    Options { segment_bytes_max: 60_000, snapshot_log_bytes_min: 120_000, ..Options::default() }
}

/// The process that writes: does nothing unless the test below started it.
#[test]
fn writes_until_the_power_goes() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::open(dir, options()).unwrap();
    // A slot is written again and again, so that snapshots remove segments.
    for count in 1_u64.. {
        let slot = format!("/slot/{:03}", count % 100);
        let last = Op::put("/last", count.to_string());
        store.txn_blocking(vec![Op::put(slot, vec![b'x'; 700]), last]).unwrap();
        println!("acknowledged {count}");
    }
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged() {
    let Some(bench) = Bench::new() else { return };
    let mut writer = Writer::start(&bench.inner.mounted.join("store"));
    let mut cut_within_a_snapshot = 0;
    for cut in 1..=CUTS {
        let acknowledged = writer.read_until(writer.acknowledged + 37 * cut as u64);
        let image = bench.outer.mounted.join("after.img");
        run("cp", &["--reflink=always", &text(&bench.image), &text(&image)]).unwrap();
        let after = Mounted::new(&image, &bench.outer.folder.path().join("after")).unwrap();
        let folder = after.mounted.join("store");
        let files = std::fs::read_dir(&folder).unwrap().count();
        cut_within_a_snapshot += usize::from(files > 3);
        let store = Store::open(&folder, options()).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        let held = store.get("/last").map_or(0, |item| String::from_utf8_lossy(&item.value).parse().unwrap());
        assert!(held >= acknowledged, "cut {cut}: {acknowledged} acknowledged, {held} there");
        assert_eq!(store.revision(), 1 + 2 * held, "cut {cut}: a transaction is there whole or not at all");
        assert_eq!(store.count("/slot/"), usize::try_from(held.min(100)).unwrap(), "cut {cut}");
        store.txn_blocking(vec![Op::put("/last", "0")]).unwrap();
        store.close();
    }
    println!(
        "{CUTS} losses of power, {} acknowledged, {cut_within_a_snapshot} among more than three files",
        writer.acknowledged
    );
}

/// The process that writes, killed when this is dropped.
struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: u64,
}

impl Writer {
    fn start(dir: &Path) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writes_until_the_power_goes", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Writer { child, lines, acknowledged: 0 }
    }

    fn read_until(&mut self, enough: u64) -> u64 {
        while self.acknowledged < enough {
            let line = self.lines.next().expect("the writer goes on").unwrap();
            if let Some(count) = line.strip_prefix("acknowledged ") {
                self.acknowledged = count.parse().unwrap();
            }
        }
        self.acknowledged
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Two file systems: xfs with the image of a disk, and ext4 on that image.
struct Bench {
    // Dropped in this order.
    inner: Mounted,
    outer: Outer,
    image: PathBuf,
}

struct Outer {
    mounted: PathBuf,
    _mount: Mounted,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Option<Bench> {
        match Bench::try_new() {
            Ok(bench) => Some(bench),
            Err(why) => {
                lazaret_missing::not_run("losses of power on a block device", "block-devices", why);
                None
            }
        }
    }

    fn try_new() -> Result<Bench, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = folder.path().join("disk.img");
        // The smallest that mkfs.xfs takes is 300 MB; the file has holes.
        run("truncate", &["-s", "400M", &text(&disk)])?;
        run("mkfs.xfs", &["-q", "-m", "reflink=1", &text(&disk)])?;
        let mount = Mounted::new(&disk, &folder.path().join("outer"))?;
        let outer = Outer { mounted: mount.mounted.clone(), _mount: mount, folder };
        let image = outer.mounted.join("ext4.img");
        run("truncate", &["-s", "48M", &text(&image)])?;
        run("mkfs.ext4", &["-q", &text(&image)])?;
        let inner = Mounted::new(&image, &outer.folder.path().join("inner"))?;
        Ok(Bench { inner, outer, image })
    }
}

/// A file system on a loop device, unmounted when this is dropped.
struct Mounted {
    mounted: PathBuf,
}

impl Mounted {
    fn new(image: &Path, at: &Path) -> Result<Mounted, String> {
        std::fs::create_dir_all(at).map_err(|error| error.to_string())?;
        run("mount", &["-o", "loop", &text(image), &text(at)])?;
        Ok(Mounted { mounted: at.to_path_buf() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(why) = run("umount", &[&text(&self.mounted)]) {
            eprintln!("{why}");
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{program} {}: {}", args.join(" "), said.trim()))
    }
}
