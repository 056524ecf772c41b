//! Waiting for children.

use std::os::fd::OwnedFd;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, pidfd_send_signal, wait,
    waitpid,
};

/// A process whose end is ours to learn: our child, or one that was handed to us as their reaper. Its id stays its own
/// until [`Child::reap`].
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
}

impl Child {
    pub(super) fn new(pid: u32) -> Result<Self, String> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("a process id is missing")?;
        let handle = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| format!("watch process {pid:?}: {error}"))?;
        Ok(Self { pid, handle })
    }

    pub(super) fn signal(&self, number: i32) -> Result<(), String> {
        let sent = match Signal::from_named_raw(number) {
            Some(signal) => pidfd_send_signal(&self.handle, signal).map_err(std::io::Error::from),
            // Signals without a name of their own, SIGRTMIN+3 among them.
            None => std::process::Command::new("kill")
                .args([format!("-{number}"), self.pid.as_raw_nonzero().to_string()])
                .status()
                .map(drop),
        };
        sent.map_err(|error| format!("send signal {number}: {error}"))
    }

    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    pub(super) fn kill_group(&self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        let _ = kill_process(self.pid, Signal::KILL);
    }

    /// Waits for its end; the handle was readable, so this takes no time.
    pub(super) fn reap(&self) -> Ended {
        let status = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
        match status {
            Ok(Some((_, status))) => ended(status),
            _ => Ended { code: 255, signal: None },
        }
    }
}

/// As shells count: 128 and the signal.
pub(super) fn ended(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended { code, signal: None },
        (None, Some(signal)) => Ended { code: 128 + signal, signal: Some(signal) },
        (None, None) => Ended { code: 255, signal: None },
    }
}

/// Reaps whatever else ended under us.
pub(super) fn reap_others() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}
