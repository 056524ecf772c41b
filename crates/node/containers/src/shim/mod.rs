//! The processes of ours that stand beside containers: small, single-threaded, without a runtime.
//!
//! The same program is executed again with one of these words. `run` holds a container's output and waits for its end;
//! `exec` does so for a program that is executed in it; `hold` makes a sandbox's namespaces, and `pause` is the first
//! process of a shared one. None of them depends on the agent that started it.

mod client;
mod exec;
mod handshake;
mod hold;
mod launch;
mod log;
mod namespaced;
mod oci;
mod pty;
mod rootfs;
mod serve;
mod stage;
mod wait;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use crate::layout::ContainerDir;

pub(crate) use hold::{pause_lock, pause_pid};

/// The exit code of a shim process that failed.
const FAILED: u8 = 125;

/// Runs one of the processes that stand beside containers. The arguments are those after the words that lead here, as
/// in `lazaret node shim run DIRECTORY`.
pub fn shim_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let word = args.first().and_then(|word| word.to_str()).unwrap_or_default();
    let path = || args.get(1).map(PathBuf::from).ok_or_else(|| "a path is missing".to_owned());
    let reexec = Reexec::new(args.len());
    let result = match word {
        "run" => path().and_then(|path| serve::main(&ContainerDir(path), reexec)),
        "exec" => path().and_then(|path| exec::main(&path)),
        "hold" => path().and_then(|path| hold::main(&path, &reexec)),
        "pause" => path().and_then(|path| hold::pause(&path, &reexec)),
        "sleep" => hold::sleep(),
        "stage" => path().and_then(|path| stage::main(&path, &reexec)),
        "init" => path().and_then(|path| stage::init(&path)),
        "true" => Ok(ExitCode::SUCCESS),
        _ => Err(format!("{word:?} is none of run, exec, hold, pause, sleep, stage, init, true")),
    };
    result.unwrap_or_else(|message| {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "lazaret shim: {message}");
        ExitCode::from(FAILED)
    })
}

/// How this program is executed again as one of these processes.
#[derive(Clone, Debug)]
pub(crate) struct Reexec {
    words: Vec<OsString>,
}

impl Reexec {
    /// The words before the last `count` of this process' own.
    fn new(count: usize) -> Self {
        let all: Vec<OsString> = std::env::args_os().skip(1).collect();
        let end = all.len().saturating_sub(count);
        Self { words: all[..end].to_vec() }
    }

    /// A command for this program with the words that lead to [`shim_main`].
    pub(crate) fn command(&self, word: &str) -> std::process::Command {
        let mut command = std::process::Command::new("/proc/self/exe");
        command.args(&self.words).arg(word);
        command
    }
}
