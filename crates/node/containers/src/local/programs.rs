//! OCI programs that outlived the shim which executed them.

use std::{
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// How often a process that has a program and no command line yet is looked at, a millisecond apart.
const POLLS_MAX: usize = 50;

/// Kills a program that still makes or starts this container, and waits for its end: what it would make after everything was removed would
/// stay.
pub(super) fn kill_makers(root: &Path, id: &str) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    for pid in pids.filter(|pid| is_maker(*pid, root, id)) {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // The id may have become another's in between.
        if is_maker(pid, root, id) {
            tracing::warn!(id, "kill an OCI program whose shim was killed");
            end(&handle);
        }
    }
}

fn end(handle: &OwnedFd) {
    if pidfd_send_signal(handle, Signal::KILL).is_ok() {
        let mut fds = [PollFd::new(handle, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
    }
}

fn is_maker(pid: Pid, root: &Path, id: &str) -> bool {
    is_command(&command_line(pid), root, id)
}

/// The kernel lets go of the parent in the middle of `execve`, before the new command line can be read. A process that has a program and
/// an empty command line is therefore looked at again; kernel threads and processes that have ended have no program.
fn command_line(pid: Pid) -> Vec<u8> {
    let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
    let is_beginning = |line: &[u8]| line.is_empty() && fs::read_link(process.join("exe")).is_ok();
    let read = || fs::read(process.join("cmdline")).unwrap_or_default();
    let mut line = read();
    for _ in 0..POLLS_MAX {
        if !is_beginning(&line) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        line = read();
    }
    line
}

/// Whether this is a command of ours for this container: `PROGRAM --root ROOT … create … ID`.
fn is_command(line: &[u8], root: &Path, id: &str) -> bool {
    let words: Vec<&[u8]> = line.strip_suffix(&[0]).unwrap_or_default().split(|byte| *byte == 0).collect();
    let has = |word: &[u8]| words.contains(&word);
    words.last() == Some(&id.as_bytes())
        && has(b"--root")
        && has(root.as_os_str().as_bytes())
        && (has(b"create") || has(b"start"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_makes_the_container_is_ended_and_another_stays() {
        let start = |id: &str| {
            let mut command = std::process::Command::new("sh");
            // Built in, so that it stays the one process.
            command.args(["-c", "read x", "sh", "--root", "/there/is/none", "create", id]);
            command.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let (mut ours, mut other) = (start("a_b_0"), start("a_b_1"));
        kill_makers(Path::new("/there/is/none"), "a_b_0");
        // It was waited for.
        assert!(ours.try_wait().unwrap().is_some_and(|status| !status.success()));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn only_what_makes_this_container_is_ended() {
        let is_command =
            |line: &str| is_command(line.replace(' ', "\0").as_bytes(), Path::new("/r"), "a_b_0");
        assert!(is_command("runc --root /r --log l create --bundle b a_b_0 "));
        assert!(is_command("runc --root /r --log l start a_b_0 "));
        for other in [
            "",
            "runc --root /r delete --force a_b_0 ",
            "runc --root /other create a_b_0 ",
            "runc --root /r create a_b_01 ",
            "runc --root /r create a_b_0 x ",
        ] {
            assert!(!is_command(other), "{other}");
        }
    }
}
