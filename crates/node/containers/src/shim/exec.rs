//! `exec`: one program that is executed in a running container. It ends with its caller.

use std::{
    fs,
    os::fd::OwnedFd,
    path::Path,
    process::{ExitCode, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use serde_json::Value;

use super::{
    launch::{self, Launched, Streams, nonblocking, oci_program, read_pid},
    oci::Refused,
    pty, stage,
    wait::{self, Child},
};
use crate::{
    layout::{self, ContainerDir},
    protocol::{Decoder, Kind, PAYLOAD_BYTES_MAX, Reply},
    record::{Engine, ExecSpec},
};

/// Our input is the connection to the agent: the program's input and sizes come in, its exit code goes out. Our output
/// and errors are the program's own, or with a terminal what it wrote.
pub(super) fn main(path: &Path) -> Result<ExitCode, String> {
    let spec: Option<ExecSpec> = layout::read(path).map_err(|error| error.to_string())?;
    let _ = fs::remove_file(path);
    let spec = spec.ok_or_else(|| format!("{} is not there", path.display()))?;
    // Kept until the answer is sent: the leader of a terminal's session is killed when that closes.
    let mut session = None;
    let reply = match launch(&spec) {
        Ok(launched) => match session.insert(Session::new(launched, spec.tty)).run() {
            Some(code) => Reply::Exited(code),
            None => return Ok(ExitCode::FAILURE),
        },
        Err(Refused { message, cannot_run }) => Reply::Failed { message, cannot_run },
    };
    let _ = rustix::io::write(std::io::stdin(), &reply.frame());
    Ok(ExitCode::SUCCESS)
}

fn launch(spec: &ExecSpec) -> Result<Launched, Refused> {
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("become a reaper: {error}"))?;
    let directory = ContainerDir(spec.directory.clone());
    std::env::set_current_dir(&directory.0).map_err(|error| format!("{}: {error}", directory.0.display()))?;
    match &spec.engine {
        Engine::Oci { program, root } => oci(spec, &directory, program, root),
        Engine::Namespaces | Engine::Processes => {
            let (mut command, terminal) = stage::exec_command(spec, &directory)?;
            let mut streams = Streams::default();
            if terminal.is_none() {
                streams = input(&mut command, spec.stdin)?;
            }
            let spawned = command.spawn().map_err(|error| stage::not_executed(&spec.command, &error))?;
            drop(command);
            let child = Child::new(spawned.id())?;
            if let Some((controller, user)) = terminal {
                stage::bring_to_front(&user, &child);
                streams = launch::of_terminal(controller)?;
            }
            Ok(Launched { child, streams })
        }
    }
}

fn oci(spec: &ExecSpec, directory: &ContainerDir, program: &Path, root: &Path) -> Result<Launched, Refused> {
    let config: Option<Value> =
        layout::read(&directory.bundle().join("config.json")).map_err(|error| error.to_string())?;
    let mut process = config.map(|mut config| config["process"].take()).unwrap_or_default();
    process["args"] = spec.command.as_slice().into();
    process["terminal"] = spec.tty.into();
    let own = std::process::id();
    let [process_file, pid_file] =
        ["process", "pid"].map(|what| directory.0.join(format!("exec-{own}.{what}")));
    layout::write(&process_file, &process).map_err(|error| format!("{}: {error}", process_file.display()))?;
    let oci = oci_program(directory, program, root);
    let mut command = oci.command("exec");
    command.args(["--detach", "--process"]).arg(&process_file).arg("--pid-file").arg(&pid_file);
    let console_name = format!("exec-{own}.console");
    let (mut console, mut streams) = (None, Streams::default());
    if spec.tty {
        let (listener, path) = pty::listen(&console_name)?;
        command.arg("--tty").arg("--console-socket").arg(path);
        console = Some(listener);
    } else {
        streams = input(&mut command, spec.stdin)?;
    }
    command.arg(&spec.id);
    let result = oci.run(command);
    let _ = fs::remove_file(&process_file);
    let terminal = match (&result, console) {
        (Ok(()), Some(listener)) => Some(pty::receive(&listener)),
        (Ok(()) | Err(_), _) => None,
    };
    let _ = fs::remove_file(&console_name);
    let pid = read_pid(&pid_file);
    let _ = fs::remove_file(&pid_file);
    result?;
    if let Some(terminal) = terminal {
        streams = launch::of_terminal(terminal?)?;
    }
    Ok(Launched { child: Child::new(pid?)?, streams })
}

/// An input of its own; output and errors are ours.
fn input(command: &mut std::process::Command, with_stdin: bool) -> Result<Streams, String> {
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    if !with_stdin {
        command.stdin(Stdio::null());
        return Ok(Streams::default());
    }
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| format!("make a pipe: {error}"))?;
    nonblocking(&write)?;
    command.stdin(Stdio::from(read));
    Ok(Streams { stdin: Some(write), ..Streams::default() })
}

struct Session {
    child: Child,
    stdin: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    pending: Vec<u8>,
    ends_input: bool,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Session {
    fn new(launched: Launched, tty: bool) -> Self {
        let Launched { child, streams } = launched;
        Self {
            child,
            stdin: streams.stdin,
            terminal: streams.stdout.filter(|_| tty),
            pending: Vec::new(),
            ends_input: false,
            decoder: Decoder::default(),
            buffer: vec![0; PAYLOAD_BYTES_MAX],
        }
    }

    /// The exit code; none when the agent let go of it.
    fn run(&mut self) -> Option<i32> {
        let agent = std::io::stdin();
        loop {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, self.pending.is_empty());
            let nothing = PollFlags::empty();
            let stdin_flags = if self.pending.is_empty() { nothing } else { PollFlags::OUT };
            let mut fds = vec![PollFd::new(&agent, wanted), PollFd::new(&self.child.handle, PollFlags::IN)];
            fds.extend(self.terminal.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let terminal_at = self.terminal.as_ref().map(|_| fds.len() - 1);
            // A reader that is gone is an error on a pipe, and asked for only while there is something to write.
            let stdin = self.stdin.as_ref().filter(|_| !self.pending.is_empty());
            fds.extend(stdin.map(|fd| PollFd::new(fd, stdin_flags)));
            let stdin_at = stdin.map(|_| fds.len() - 1);
            let _ = poll(&mut fds, None);
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if terminal_at.is_some_and(|at| ready[at]) {
                self.output();
            }
            if stdin_at.is_some_and(|at| ready[at]) {
                self.feed();
            }
            if ready[1] {
                let ended = self.child.reap();
                wait::reap_others();
                while self.output() {}
                return Some(ended.code);
            }
            if ready[0] && !self.read_agent() {
                self.child.kill();
                self.child.reap();
                return None;
            }
        }
    }

    /// Passes on what the program wrote to its terminal; false when there is nothing now.
    fn output(&mut self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        match rustix::io::read(terminal, &mut self.buffer[..]) {
            Ok(count) if count > 0 => {
                use std::io::Write;
                // A reader that is gone is noticed on the other connection.
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(&self.buffer[..count]).and_then(|()| out.flush());
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Ok(_) | Err(_) => {
                self.terminal = None;
                false
            }
        }
    }

    fn feed(&mut self) {
        if let Some(stdin) = &self.stdin {
            match rustix::io::write(stdin, &self.pending) {
                Ok(count) => {
                    self.pending.drain(..count);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => {
                    self.pending.clear();
                    self.stdin = None;
                }
            }
        } else {
            self.pending.clear();
        }
        if self.ends_input && self.pending.is_empty() {
            self.stdin = None;
        }
    }

    /// Takes what the agent sent; false when it is gone.
    fn read_agent(&mut self) -> bool {
        match rustix::io::read(std::io::stdin(), &mut self.buffer[..]) {
            Ok(count) if count > 0 => self.decoder.push(&self.buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Ok(_) | Err(_) => return false,
        }
        loop {
            match self.decoder.next() {
                Ok(Some((Kind::Stdin, payload))) => self.pending.extend_from_slice(payload),
                Ok(Some((Kind::StdinEnd, _))) => self.ends_input = true,
                Ok(Some((Kind::Resize, payload))) => {
                    if let Some(terminal) = &self.terminal {
                        pty::resize(terminal, payload);
                    }
                }
                Ok(Some((Kind::Stdout | Kind::Stderr | Kind::Reply | Kind::Request, _))) | Err(_) => {
                    return false;
                }
                Ok(None) => break,
            }
        }
        self.feed();
        true
    }
}
