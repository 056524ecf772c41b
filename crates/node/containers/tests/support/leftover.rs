//! Leftovers on the machine: of this test, which must be none, and of tests that were killed, which the next test removes.
//!
//! Directories and control groups have the process id of their test in their names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use lazaret_containers::{Choice, Options};
use rustix::{
    mount::{UnmountFlags, unmount},
    process::{Pid, Signal, kill_process},
};
use tempfile::TempDir;

const FOLDER: &str = "lazaret-containers-";
const INSTANCE: &str = "test-";

static SWEPT: Once = Once::new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory whose name says whose it is.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix(&format!("{FOLDER}{}-", std::process::id())).tempdir().unwrap()
}

/// Gives the control groups of a runtime a name that says whose they are. The name of the runtime's own is returned.
pub(crate) fn name_instances(options: &Options, choice: Choice) -> String {
    let runtime = format!("{choice:?}").to_lowercase();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let instance = format!("{INSTANCE}{}-{number}", std::process::id());
    for (state, name) in
        [(runtime.clone(), instance.clone()), (format!("probe-{runtime}"), format!("{instance}-probe"))]
    {
        let state = options.state.join(state);
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("instance"), format!("{name:?}")).unwrap();
    }
    instance
}

/// Removes what tests left that were killed.
pub(crate) fn sweep() {
    SWEPT.call_once(|| {
        for group in groups().into_iter().filter(|group| is_of_the_dead(group, INSTANCE)) {
            kill_below(&group);
        }
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            if is_of_the_dead(&entry.path(), FOLDER) {
                for target in mounts_below(&entry.path()) {
                    let _ = unmount(&target, UnmountFlags::DETACH);
                }
                if mounts_below(&entry.path()).is_empty() {
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
        }
        for group in groups().into_iter().filter(|group| is_of_the_dead(group, INSTANCE)) {
            remove_below(&group);
        }
    });
}

fn is_of_the_dead(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix(prefix).unwrap_or_default();
    let pid = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// The control groups of runtimes, by all controllers.
pub(crate) fn groups() -> Vec<PathBuf> {
    let roots = directories_in(Path::new("/sys/fs/cgroup"));
    let ours = roots.iter().map(|root| root.join("lazaret")).chain([PathBuf::from("/sys/fs/cgroup/lazaret")]);
    ours.flat_map(|path| directories_in(&path)).collect()
}

/// Those of one runtime and of the probe before it.
pub(crate) fn groups_of(instance: &str) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(instance).is_some_and(|rest| rest.is_empty() || rest == "-probe")
    };
    groups().into_iter().filter(is_ours).collect()
}

fn directories_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn kill_below(group: &Path) {
    directories_in(group).iter().for_each(|path| kill_below(path));
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn remove_below(group: &Path) {
    directories_in(group).iter().for_each(|path| remove_below(path));
    let _ = fs::remove_dir(group);
}

/// The deepest first.
pub(crate) fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<PathBuf> = targets.filter(|target| target.starts_with(folder)).collect();
    below.sort_by_key(|target| std::cmp::Reverse(target.as_os_str().len()));
    below
}

/// Processes that have one of these texts in their command line.
pub(crate) fn processes_with(texts: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && texts.iter().any(|text| line.contains(text)) {
            found.insert(format!("{pid} {line}"));
        }
    }
    found
}
