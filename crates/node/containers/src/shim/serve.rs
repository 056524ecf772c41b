//! `run`: one container, from before its start until after its end.

use std::{os::unix::net::UnixListener, process::ExitCode, time::SystemTime};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    Reexec,
    client::{Client, ClientMessage},
    launch::{self, Launched, Streams},
    log::{Log, Stream},
    oci::Refused,
    pty,
    wait::{self, Child, Ended},
};
use crate::{
    cgroup::Cgroups,
    clock,
    layout::{self, ContainerDir},
    process,
    protocol::{Kind, PAYLOAD_BYTES_MAX, Reply, Request},
    record::{Engine, ExitRecord, ShimSpec, StartRecord},
};

/// Connections at a time. Each may hold 128 KiB of output.
const CLIENTS_MAX: usize = 8;
/// Polls for output after the first process has ended and all others were killed. Data left in a pipe
/// is read at once; only a process that escaped keeps one open.
const DRAIN_POLLS_MAX: u32 = 20;
const DRAIN_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Polls for a client to read the rest of its output, after the exit is on disk.
const CLOSE_POLLS_MAX: u32 = 10;
/// The exit code of a container that could not be started, as in other runtimes.
const START_FAILED: i32 = 128;

struct Shim<'a> {
    directory: &'a ContainerDir,
    spec: ShimSpec,
    reexec: Reexec,
    log: Log,
    clients: Vec<Client>,
    /// Bytes for the program that it has not taken yet.
    input: Vec<u8>,
    /// Whether its input ends after that.
    ends_input: bool,
    program: Program,
    buffer: Vec<u8>,
}

/// How far the program is.
enum Program {
    /// Not started. Some engines make a process before.
    Created(Option<Launched>),
    Running {
        launched: Launched,
        started_at: SystemTime,
    },
    /// The first process is gone; what it wrote may still be in the pipes.
    Ended {
        streams: Streams,
        record: ExitRecord,
        polls: u32,
    },
}

pub(super) fn main(directory: &ContainerDir, reexec: Reexec) -> Result<ExitCode, String> {
    let answer = |reply: &Reply| {
        let _ = rustix::io::write(std::io::stdin(), &reply.frame());
    };
    match Shim::open(directory, reexec) {
        Ok((mut shim, listener, _lock)) => {
            answer(&Reply::Done);
            shim.run(&listener);
            Ok(ExitCode::SUCCESS)
        }
        Err(Refused { message, cannot_run }) => {
            answer(&Reply::Failed { message, cannot_run });
            Ok(ExitCode::FAILURE)
        }
    }
}

impl<'a> Shim<'a> {
    fn open(
        directory: &'a ContainerDir,
        reexec: Reexec,
    ) -> Result<(Self, UnixListener, std::fs::File), Refused> {
        // A terminal or a group of the agent must not end us.
        let _ = rustix::process::setsid();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("become a reaper: {error}"))?;
        std::env::set_current_dir(&directory.0)
            .map_err(|error| format!("{}: {error}", directory.0.display()))?;
        let lock = layout::hold_lock(&directory.lock()).map_err(|error| format!("lock: {error}"))?;
        let spec: Option<ShimSpec> =
            layout::read(&directory.shim_spec()).map_err(|error| error.to_string())?;
        let spec = spec.ok_or_else(|| "shim.json is not there".to_owned())?;
        let log = Log::open(spec.log.clone()).map_err(|error| format!("{}: {error}", spec.log.display()))?;
        // Relative, so that the path is short whatever the directory is.
        let _ = std::fs::remove_file("socket");
        let listener = UnixListener::bind("socket").map_err(|error| format!("listen: {error}"))?;
        listener.set_nonblocking(true).map_err(|error| format!("listen: {error}"))?;
        let created = launch::create(directory, &spec)?;
        let shim = Self {
            directory,
            spec,
            reexec,
            log,
            clients: Vec::new(),
            input: Vec::new(),
            ends_input: false,
            program: Program::Created(created),
            buffer: vec![0; 2 * PAYLOAD_BYTES_MAX],
        };
        Ok((shim, listener, lock))
    }

    fn run(&mut self, listener: &UnixListener) {
        while !self.is_done() {
            let ready = self.wait(listener);
            self.handle(listener, &ready);
        }
        let Program::Ended { record, .. } = &self.program else { return };
        // Without it the container would be taken for one whose shim was killed, and has the same end.
        let _ = layout::write(&self.directory.exit(), record);
        for _ in 0..CLOSE_POLLS_MAX {
            self.clients.retain_mut(|client| client.flush().is_ok() && client.has_output());
            if self.clients.is_empty() {
                break;
            }
            let mut fds: Vec<_> =
                self.clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::OUT)).collect();
            let _ = poll(&mut fds, Some(&DRAIN_POLL));
        }
    }

    fn is_done(&self) -> bool {
        match &self.program {
            Program::Ended { streams, polls, .. } => {
                (streams.stdout.is_none() && streams.stderr.is_none()) || *polls >= DRAIN_POLLS_MAX
            }
            Program::Created(_) | Program::Running { .. } => false,
        }
    }

    fn streams(&self) -> Option<&Streams> {
        match &self.program {
            Program::Created(created) => created.as_ref().map(|created| &created.streams),
            Program::Running { launched, .. } => Some(&launched.streams),
            Program::Ended { streams, .. } => Some(streams),
        }
    }

    fn streams_mut(&mut self) -> Option<&mut Streams> {
        match &mut self.program {
            Program::Created(created) => created.as_mut().map(|created| &mut created.streams),
            Program::Running { launched, .. } => Some(&mut launched.streams),
            Program::Ended { streams, .. } => Some(streams),
        }
    }

    fn child(&self) -> Option<&Child> {
        match &self.program {
            Program::Created(created) => created.as_ref().map(|created| &created.child),
            Program::Running { launched, .. } => Some(&launched.child),
            Program::Ended { .. } => None,
        }
    }

    /// Waits for events, and returns the sources that are ready.
    fn wait(&mut self, listener: &UnixListener) -> Vec<Source> {
        let mut sources = vec![(Source::Listener, PollFd::new(listener, PollFlags::IN))];
        if let Some(child) = self.child() {
            sources.push((Source::Child, PollFd::new(&child.handle, PollFlags::IN)));
        }
        if let Some(streams) = self.streams() {
            for (source, fd) in [(Source::Stdout, &streams.stdout), (Source::Stderr, &streams.stderr)] {
                sources.extend(fd.as_ref().map(|fd| (source, PollFd::new(fd, PollFlags::IN))));
            }
            if let Some(fd) = streams.stdin.as_ref().filter(|_| !self.input.is_empty()) {
                sources.push((Source::Stdin, PollFd::new(fd, PollFlags::OUT)));
            }
        }
        for (at, client) in self.clients.iter().enumerate() {
            let mut flags = PollFlags::empty();
            // A client that sends input waits until the program has read the input before.
            flags.set(PollFlags::IN, self.input.is_empty() || !client.is_attached);
            flags.set(PollFlags::OUT, client.has_output());
            sources.push((Source::Client(at), PollFd::new(&client.socket, flags)));
        }
        let timeout = matches!(self.program, Program::Ended { .. }).then_some(DRAIN_POLL);
        let (names, mut fds): (Vec<Source>, Vec<PollFd<'_>>) = sources.into_iter().unzip();
        let count = poll(&mut fds, timeout.as_ref());
        let ready: Vec<Source> = names
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(name, _)| name)
            .collect();
        drop(fds);
        if count == Ok(0)
            && let Program::Ended { polls, .. } = &mut self.program
        {
            *polls += 1;
        }
        ready
    }

    fn handle(&mut self, listener: &UnixListener, ready: &[Source]) {
        for source in ready {
            match source {
                Source::Stdout => self.read(Stream::Stdout),
                Source::Stderr => self.read(Stream::Stderr),
                Source::Stdin => self.feed(),
                Source::Client(at) => self.client(*at),
                Source::Child | Source::Listener => {}
            }
        }
        let one_left = self.clients.iter().any(|client| client.is_closed && client.is_attached);
        self.clients.retain(|client| !client.is_closed);
        if one_left && self.spec.stdin_once {
            self.ends_input = true;
        }
        if self.ends_input && self.input.is_empty() {
            self.close_input();
        }
        if ready.contains(&Source::Listener) {
            while let Ok((socket, _)) = listener.accept() {
                if self.clients.len() < CLIENTS_MAX && socket.set_nonblocking(true).is_ok() {
                    self.clients.push(Client::new(socket));
                }
            }
        }
        // Last, so that what it wrote before its end was read as far as one buffer goes.
        if ready.contains(&Source::Child) {
            self.child_ended();
        }
    }

    fn read(&mut self, stream: Stream) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let fd = self.streams().and_then(|streams| match stream {
            Stream::Stdout => streams.stdout.as_ref(),
            Stream::Stderr => streams.stderr.as_ref(),
        });
        let result = fd.map(|fd| rustix::io::read(fd, &mut buffer[..]));
        match result {
            Some(Ok(count)) if count > 0 => {
                self.log.write(stream, &buffer[..count]);
                let kind = if stream == Stream::Stdout { Kind::Stdout } else { Kind::Stderr };
                for client in self.clients.iter_mut().filter(|client| client.is_attached) {
                    client.send(kind, &buffer[..count]);
                }
            }
            None | Some(Err(Errno::AGAIN | Errno::INTR)) => {}
            // The end; a terminal returns EIO when no process has it open any more.
            Some(Ok(_) | Err(_)) => {
                self.log.end(stream);
                if let Some(streams) = self.streams_mut() {
                    match stream {
                        Stream::Stdout => streams.stdout = None,
                        Stream::Stderr => streams.stderr = None,
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    /// Gives the program of its input what it takes.
    fn feed(&mut self) {
        let Some(fd) = self.streams().and_then(|streams| streams.stdin.as_ref()) else {
            self.input.clear();
            return;
        };
        match rustix::io::write(fd, &self.input) {
            Ok(count) => {
                self.input.drain(..count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.input.clear();
                self.close_input();
            }
        }
    }

    fn close_input(&mut self) {
        // A terminal stays: its output goes through the same.
        if !self.spec.tty
            && let Some(streams) = self.streams_mut()
        {
            streams.stdin = None;
        }
    }

    fn client(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let heard = client.turn(&mut self.buffer);
        for heard in heard {
            match heard {
                ClientMessage::Request(request) => {
                    let reply = self.request(&request);
                    if let Some(client) = self.clients.get_mut(at) {
                        client.is_attached |= matches!(reply, Reply::Attached { .. });
                        client.reply(&reply);
                    }
                }
                ClientMessage::Input(bytes) if self.spec.stdin => self.input.extend_from_slice(&bytes),
                ClientMessage::InputEnd => self.ends_input |= self.spec.stdin_once,
                ClientMessage::Resize(payload) if self.spec.tty => {
                    if let Some(terminal) = self.streams().and_then(|streams| streams.stdout.as_ref()) {
                        pty::resize(terminal, &payload);
                    }
                }
                ClientMessage::Input(_) | ClientMessage::Resize(_) => {}
            }
        }
        if !self.input.is_empty() {
            self.feed();
        }
    }

    fn request(&mut self, request: &Request) -> Reply {
        match request {
            Request::Start => self.start(),
            Request::Signal(number) => match (self.child(), &self.program) {
                (Some(child), _) => done(child.signal(*number)),
                (None, Program::Created(_)) => {
                    self.end(Ended { code: 128 + number, signal: Some(*number) }, Streams::default(), None);
                    Reply::Done
                }
                (None, Program::Running { .. } | Program::Ended { .. }) => Reply::Done,
            },
            Request::Attach => Reply::Attached { tty: self.spec.tty, stdin: self.spec.stdin },
            Request::ReopenLog => done(self.log.reopen().map_err(|error| format!("reopen the log: {error}"))),
        }
    }

    fn start(&mut self) -> Reply {
        let Program::Created(created) = &mut self.program else { return Reply::Done };
        let created = created.take();
        let process = self.directory.process();
        let note = |child: &Child| {
            layout::write(&process, &start_record(child)).map_err(|error| format!("process.json: {error}"))
        };
        match launch::start(self.directory, &self.spec, created, &self.reexec, note) {
            Ok(launched) => {
                let record = start_record(&launched.child);
                let started_at = record.at;
                let written = layout::write(&self.directory.started(), &record);
                self.program = Program::Running { launched, started_at };
                done(written.map_err(|error| format!("started.json: {error}")))
            }
            Err((Refused { message, cannot_run }, created)) => {
                let streams = created.map_or_else(Streams::default, |created| {
                    created.child.kill();
                    created.child.reap();
                    created.streams
                });
                self.end(Ended { code: START_FAILED, signal: None }, streams, Some(message.clone()));
                Reply::Failed { message, cannot_run }
            }
        }
    }

    fn child_ended(&mut self) {
        let Some(child) = self.child() else { return };
        let ended = child.reap();
        match &self.spec.engine {
            Engine::Oci { .. } | Engine::Namespaces => {}
            // Processes that made a group of their own are not reached.
            Engine::Processes => child.kill_group(),
        }
        let streams = self.streams_mut().map(std::mem::take).unwrap_or_default();
        self.end(ended, streams, None);
    }

    /// Notes the end, and kills what is left where the kernel did not.
    fn end(&mut self, ended: Ended, streams: Streams, message: Option<String>) {
        let started_at = match &self.program {
            Program::Running { started_at, .. } => Some(*started_at),
            Program::Created(_) | Program::Ended { .. } => None,
        };
        let finished_at = clock::now();
        let mut is_out_of_memory = false;
        if let Some(group) = &self.spec.cgroup {
            let cgroups = Cgroups::find();
            cgroups.kill(group);
            is_out_of_memory = ended.code != 0 && cgroups.out_of_memory_kills(group) > 0;
        }
        wait::reap_others();
        let Ended { code, signal } = ended;
        let record = ExitRecord { started_at, finished_at, code, signal, is_out_of_memory, message };
        self.program = Program::Ended { streams: Streams { stdin: None, ..streams }, record, polls: 0 };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Child,
    Stdout,
    Stderr,
    Stdin,
    Client(usize),
}

/// Which process it is, as of now.
fn start_record(child: &Child) -> StartRecord {
    let pid = child.pid.as_raw_nonzero().get().unsigned_abs();
    StartRecord { at: clock::now(), pid, born_at: process::born_at(pid) }
}

fn done(result: Result<(), String>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(message) => Reply::Failed { message, cannot_run: false },
    }
}
