//! The protocol between a shim and the process that becomes a container's program, through two named pipes.
//!
//! ```text
//! stage                                  shim
//! report: READY                   ──▶    notes which process this is
//!                                 ◀──    go: GO
//! executes the program, which
//! closes its end of report        ──▶    the program runs
//! ```
//!
//! A stage that cannot go on writes the reason to `report` instead. Neither side uses a timeout: a stage whose shim is gone reads the
//! end of `go`, and ends without having executed anything; a shim whose stage is gone sees the end of that process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags, mkfifoat},
};

use super::{oci::Refused, wait::Child};

/// Bytes of a message of failure.
const MESSAGE_BYTES_MAX: u64 = 16 << 10;
/// The program is all that is missing.
const READY: u8 = b'b';
/// There is no program, and the program is at fault.
const CANNOT_RUN: u8 = b'p';
/// There is no program, and the runtime is at fault.
const FAILED: u8 = b'r';
const GO: u8 = b'g';

fn report_path(directory: &Path) -> PathBuf {
    directory.join("report")
}

fn go_path(directory: &Path) -> PathBuf {
    directory.join("go")
}

fn nonblocking() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// The shim's side.
pub(super) struct Handshake {
    report: File,
    /// Our own writing end of the report: without it, the end of one stage would be the end of the report although the next stage has
    /// not opened it yet.
    held: Option<File>,
    go: File,
}

impl Handshake {
    pub(super) fn listen(directory: &Path) -> Result<Self, Refused> {
        let open = || -> io::Result<Self> {
            let [report, go] = [report_path(directory), go_path(directory)];
            for path in [&report, &go] {
                let _ = fs::remove_file(path);
                mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
            }
            Ok(Self {
                report: nonblocking().read(true).open(&report)?,
                held: Some(OpenOptions::new().write(true).open(&report)?),
                // Read as well as written: then neither opening nor writing waits for a stage.
                go: nonblocking().read(true).write(true).open(&go)?,
            })
        };
        open().map_err(|error| format!("{}: {error}", directory.display()).into())
    }

    /// Waits until the program is all that is missing. The stage is the only one that has the report open, besides us.
    pub(super) fn ready(&mut self, stage: &Child) -> Result<(), Refused> {
        loop {
            let mut fds =
                [PollFd::new(&self.report, PollFlags::IN), PollFd::new(&stage.handle, PollFlags::IN)];
            let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
            let has_ended = !fds[1].revents().is_empty();
            match self.first_byte() {
                Some(READY) => return Ok(()),
                Some(letter) => return Err(self.refusal(letter)),
                None if has_ended => {
                    return Err("the process ended before it became the container's program"
                        .to_owned()
                        .into());
                }
                None => {}
            }
        }
    }

    /// Lets the program begin, and waits until it has.
    pub(super) fn go(mut self) -> Result<(), Refused> {
        self.held = None;
        (&self.go).write_all(&[GO]).map_err(|error| format!("let the program begin: {error}"))?;
        let mut fds = [PollFd::new(&self.report, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
        match self.first_byte() {
            None => Ok(()),
            Some(letter) => Err(self.refusal(letter)),
        }
    }

    /// Why a stage ended that was to leave another. If there is another, it ends now, for no process will let it go.
    pub(super) fn refused(self) -> Option<Refused> {
        let Self { report, held, go } = self;
        drop((held, go));
        let said = read_to_end(&report);
        let (letter, message) = said.strip_prefix(&[READY]).unwrap_or(&said).split_first()?;
        Some(refusal(*letter, message))
    }

    fn first_byte(&self) -> Option<u8> {
        let mut byte = [0];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.report, &mut byte[..]));
        (read == Ok(1)).then_some(byte[0])
    }

    /// Reads what follows the letter, until the stage has ended and closed the report with that.
    fn refusal(&mut self, letter: u8) -> Refused {
        self.held = None;
        refusal(letter, &read_to_end(&self.report))
    }
}

fn refusal(letter: u8, message: &[u8]) -> Refused {
    Refused { message: String::from_utf8_lossy(message).into_owned(), cannot_run: letter == CANNOT_RUN }
}

fn read_to_end(report: &File) -> Vec<u8> {
    let mut said = Vec::new();
    loop {
        let left = MESSAGE_BYTES_MAX.saturating_sub(said.len() as u64);
        match Read::take(report, left).read_to_end(&mut said) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(report, PollFlags::IN)];
                let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
            }
            Ok(_) | Err(_) => return said,
        }
    }
}

/// The side of a stage. Its files close when the program is executed.
pub(super) struct Stage {
    report: File,
    go: File,
}

impl Stage {
    pub(super) fn open(directory: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        // The shim is gone when this cannot be opened at once.
        let report = nonblocking().write(true).open(report_path(directory)).map_err(failed)?;
        rustix::io::ioctl_fionbio(&report, false).map_err(|error| failed(error.into()))?;
        let go = nonblocking().read(true).open(go_path(directory)).map_err(failed)?;
        Ok(Self { report, go })
    }

    /// Says that the program is all that is missing, and waits to be let go.
    pub(super) fn ready(&self) -> Result<(), Refused> {
        let gone = |why: &str| Refused::from(format!("the shim is gone: {why}"));
        (&self.report).write_all(&[READY]).map_err(|error| gone(&error.to_string()))?;
        let mut byte = [0];
        loop {
            match (&self.go).read(&mut byte) {
                Ok(1) => return Ok(()),
                Ok(_) => return Err(gone("nobody lets the program begin")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(&self.go, PollFlags::IN)];
                    let _ = rustix::io::retry_on_intr(|| poll(&mut fds, None));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(&error.to_string())),
            }
        }
    }

    /// Says why there is no program.
    pub(super) fn refuse(&self, refused: &Refused) {
        let letter = if refused.cannot_run { CANNOT_RUN } else { FAILED };
        let mut message = vec![letter];
        message.extend_from_slice(refused.message.as_bytes());
        let _ = (&self.report).write_all(&message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_without_a_shim_ends() {
        let folder = tempfile::tempdir().unwrap();
        let handshake = Handshake::listen(folder.path()).unwrap();
        let stage = Stage::open(folder.path()).unwrap();
        drop(handshake);
        assert!(stage.ready().is_err());
        // Nor does one wait that comes later. A child that another test has just forked may have the shim's end open for a moment.
        let refused = (0..60_000).any(|_| {
            let refused = Stage::open(folder.path()).is_err();
            std::thread::sleep(std::time::Duration::from_millis(u64::from(!refused)));
            refused
        });
        assert!(refused);
    }

    #[test]
    fn a_stage_waits_for_its_shim_and_a_refusal_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut handshake = Handshake::listen(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let stage = std::thread::spawn(move || {
            let stage = Stage::open(&path).unwrap();
            stage.ready().unwrap();
            stage.refuse(&Refused { message: "x".repeat(10_000), cannot_run: true });
        });
        let own = Child::new(std::process::id()).unwrap();
        handshake.ready(&own).unwrap();
        let refused = handshake.go().unwrap_err();
        assert_eq!((refused.message.len(), refused.cannot_run), (10_000, true));
        stage.join().unwrap();
    }
}
