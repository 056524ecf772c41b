//! How a container's first process comes to be.

use std::{
    fs,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
};

use rustix::pipe::{PipeFlags, pipe_with};

use super::{
    Reexec,
    handshake::Handshake,
    namespaced::pid_file,
    oci::{OciProgram, Refused},
    pty,
    wait::Child,
};
use crate::{
    layout::ContainerDir,
    record::{Engine, ShimSpec},
};

/// Our side of a program's streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The program's input. With a terminal, the terminal.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// A process with its streams.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) child: Child,
    pub(super) streams: Streams,
}

/// Makes the container as far as it goes before it is started.
pub(super) fn create(directory: &ContainerDir, spec: &ShimSpec) -> Result<Option<Launched>, Refused> {
    let Engine::Oci { program, root } = &spec.engine else { return Ok(None) };
    let oci = oci_program(directory, program, root);
    let mut command = oci.command("create");
    let pid_file = directory.0.join("pid");
    command.arg("--bundle").arg(directory.bundle()).arg("--pid-file").arg(&pid_file);
    let mut console = None;
    let mut streams = Streams::default();
    if spec.tty {
        let (listener, path) = pty::listen(pty::CONSOLE)?;
        command.arg("--console-socket").arg(path);
        console = Some(listener);
    } else {
        streams = pipes(&mut command, spec.stdin)?;
    }
    command.arg(&spec.id);
    oci.run(command)?;
    if let Some(listener) = console {
        streams = of_terminal(pty::receive(&listener)?)?;
        let _ = fs::remove_file(pty::CONSOLE);
    }
    let child = Child::new(read_pid(&pid_file)?)?;
    Ok(Some(Launched { child, streams }))
}

/// Lets its program begin. Where no control group says which processes are the container's, `note` is called with its first one before that.
pub(super) fn start(
    directory: &ContainerDir,
    spec: &ShimSpec,
    created: Option<Launched>,
    reexec: &Reexec,
    note: impl FnOnce(&Child) -> Result<(), String>,
) -> Result<Launched, (Refused, Option<Launched>)> {
    match &spec.engine {
        Engine::Oci { program, root } => {
            let oci = oci_program(directory, program, root);
            let mut command = oci.command("start");
            command.arg(&spec.id);
            match (oci.run(command), created) {
                (Ok(()), Some(created)) => Ok(created),
                (Ok(()), None) => Err((Refused::from("the container was not created".to_owned()), None)),
                (Err(refused), created) => Err((refused, created)),
            }
        }
        Engine::Namespaces | Engine::Processes => {
            staged(directory, spec, reexec, note).map_err(|refused| (refused, None))
        }
    }
}

/// Starts the process that turns itself into the program.
fn staged(
    directory: &ContainerDir,
    spec: &ShimSpec,
    reexec: &Reexec,
    note: impl FnOnce(&Child) -> Result<(), String>,
) -> Result<Launched, Refused> {
    let mut handshake = Handshake::listen(&directory.0)?;
    let mut command = reexec.command("stage");
    command.arg(&directory.0);
    let streams = if spec.tty {
        let (controller, user) = pty::open()?;
        terminal_stdio(&mut command, &user)?;
        of_terminal(controller)?
    } else {
        pipes(&mut command, spec.stdin)?
    };
    let spawned = command.spawn().map_err(|error| format!("execute a stage: {error}"))?;
    drop(command);
    let mut child = Child::new(spawned.id())?;
    if spec.engine == Engine::Namespaces {
        // The first stage ends when the second is there, and leaves it to us.
        let ended = child.reap();
        if ended.code != 0 {
            let silent = || format!("a stage ended with {}", ended.code).into();
            return Err(handshake.refused().unwrap_or_else(silent));
        }
        child = Child::new(read_pid(&pid_file(directory))?)?;
    }
    let begun = handshake.ready(&child).and_then(|()| Ok(note(&child)?)).and_then(|()| handshake.go());
    match begun {
        Ok(()) => Ok(Launched { child, streams }),
        Err(refused) => {
            child.kill();
            child.reap();
            Err(refused)
        }
    }
}

/// Gives a command pipes, and keeps their other ends.
pub(super) fn pipes(command: &mut Command, with_stdin: bool) -> Result<Streams, String> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("make a pipe: {error}"));
    let mut streams = Streams::default();
    if with_stdin {
        let (read, write) = pipe()?;
        command.stdin(Stdio::from(read));
        nonblocking(&write)?;
        streams.stdin = Some(write);
    } else {
        command.stdin(Stdio::null());
    }
    let (read, write) = pipe()?;
    command.stdout(Stdio::from(write));
    nonblocking(&read)?;
    streams.stdout = Some(read);
    let (read, write) = pipe()?;
    command.stderr(Stdio::from(write));
    nonblocking(&read)?;
    streams.stderr = Some(read);
    Ok(streams)
}

/// Gives a command a terminal.
pub(super) fn terminal_stdio(command: &mut Command, user: &OwnedFd) -> Result<(), String> {
    let again = || user.try_clone().map(Stdio::from).map_err(|error| format!("share a terminal: {error}"));
    command.stdin(again()?).stdout(again()?).stderr(again()?);
    Ok(())
}

/// A terminal is read and written.
pub(super) fn of_terminal(terminal: OwnedFd) -> Result<Streams, String> {
    nonblocking(&terminal)?;
    let other = terminal.try_clone().map_err(|error| format!("share a terminal: {error}"))?;
    Ok(Streams { stdin: Some(other), stdout: Some(terminal), stderr: None })
}

pub(super) fn nonblocking(fd: &OwnedFd) -> Result<(), String> {
    rustix::io::ioctl_fionbio(fd, true).map_err(|error| format!("set a pipe: {error}"))
}

pub(super) fn read_pid(path: &Path) -> Result<u32, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn oci_program<'a>(directory: &ContainerDir, program: &'a Path, root: &'a Path) -> OciProgram<'a> {
    OciProgram { program, root, log: directory.0.join("oci.log") }
}
