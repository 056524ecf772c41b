//! `stage`: a process that turns itself into a container's program, where no OCI runtime does.

use std::{
    fs,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use serde_json::Value;

use super::{Reexec, handshake::Stage, launch, oci::Refused, pty, wait::Child};
use crate::{
    layout::{self, ContainerDir},
    record::{Engine, ExecSpec, ShimSpec},
};

/// The only process, or the first of two: the second is [`init`].
pub(super) fn main(path: &Path, reexec: &Reexec) -> Result<ExitCode, String> {
    let directory = ContainerDir(path.to_owned());
    let stage = Stage::open(path)?;
    let spec: Option<ShimSpec> = layout::read(&directory.shim_spec()).map_err(|error| error.to_string())?;
    let spec = spec.ok_or_else(|| "shim.json is not there".to_owned())?;
    let result = match spec.engine {
        Engine::Processes => plain(&directory, &spec, &stage),
        Engine::Namespaces => super::namespaced::first(&directory, reexec),
        Engine::Oci { .. } => Err("an OCI runtime has no stage".to_owned().into()),
    };
    Ok(ended(&stage, result))
}

/// The first process of the namespaces.
pub(super) fn init(path: &Path) -> Result<ExitCode, String> {
    let stage = Stage::open(path)?;
    let result = super::namespaced::second(&ContainerDir(path.to_owned()), &stage);
    Ok(ended(&stage, result))
}

/// Reports why a stage did not become the program, and returns its exit code.
fn ended(stage: &Stage, result: Result<ExitCode, Refused>) -> ExitCode {
    result.unwrap_or_else(|refused| {
        stage.refuse(&refused);
        ExitCode::from(super::FAILED)
    })
}

/// A program on the host.
fn plain(directory: &ContainerDir, spec: &ShimSpec, stage: &Stage) -> Result<ExitCode, Refused> {
    let process = process_of(directory)?;
    session(spec.tty)?;
    if process["noNewPrivileges"] == true {
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    }
    if let Some(score) = process["oomScoreAdj"].as_i64() {
        let _ = fs::write("/proc/self/oom_score_adj", score.to_string());
    }
    let mut command = command_of(&process, None)?;
    command.current_dir(plain_directory(directory, &process)?);
    if rustix::process::geteuid().is_root() {
        become_user(&process)?;
    }
    stage.ready()?;
    let error = command.exec();
    Err(not_executed(&args_of(&process), &error))
}

/// Where a plain process starts: below the container's own directory, or in it.
fn plain_directory(directory: &ContainerDir, process: &Value) -> Result<PathBuf, Refused> {
    let config: Option<Value> =
        layout::read(&directory.bundle().join("config.json")).map_err(|error| error.to_string())?;
    let root = config.as_ref().and_then(|config| config["root"]["path"].as_str()).unwrap_or("/").to_owned();
    let wanted = process["cwd"].as_str().unwrap_or("/").trim_start_matches('/');
    let inside = Path::new(&root).join(wanted);
    Ok(if inside.is_dir() { inside } else { root.into() })
}

pub(super) fn process_of(directory: &ContainerDir) -> Result<Value, Refused> {
    let config: Option<Value> =
        layout::read(&directory.bundle().join("config.json")).map_err(|error| error.to_string())?;
    Ok(config.map(|mut config| config["process"].take()).unwrap_or_default())
}

/// A session of its own, so that everything of it can be killed; with a terminal, that one.
pub(super) fn session(tty: bool) -> Result<(), Refused> {
    let _ = rustix::process::setsid();
    if tty {
        rustix::process::ioctl_tiocsctty(std::io::stdin()).map_err(|error| format!("terminal: {error}"))?;
    }
    Ok(())
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
}

pub(super) fn args_of(process: &Value) -> Vec<String> {
    strings(&process["args"])
}

/// The program with its arguments and nothing but its own environment. It is found by its own `PATH`.
pub(super) fn command_of(process: &Value, args: Option<&[String]>) -> Result<Command, Refused> {
    let args = args.map_or_else(|| args_of(process), <[String]>::to_vec);
    let Some((program, rest)) = args.split_first() else {
        return Err(Refused { message: "there is no command".to_owned(), cannot_run: true });
    };
    let mut command = Command::new(program);
    command.args(rest).env_clear();
    for variable in strings(&process["env"]) {
        let (name, value) = variable.split_once('=').unwrap_or((&variable, ""));
        command.env(name, value);
    }
    Ok(command)
}

/// Becomes the user of the container: this process, since a command would forget the further groups.
pub(super) fn become_user(process: &Value) -> Result<(), Refused> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    let (uid, gid) = (id(&process["user"]["uid"]), id(&process["user"]["gid"]));
    let groups: Vec<_> = process["user"]["additionalGids"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|group| rustix::fs::Gid::from_raw(id(group)))
        .collect();
    rustix::thread::set_thread_groups(&groups).map_err(|error| format!("groups: {error}"))?;
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(|error| format!("group: {error}"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(|error| format!("user: {error}"))?;
    Ok(())
}

pub(super) fn not_executed(args: &[String], error: &std::io::Error) -> Refused {
    let program = args.first().map(String::as_str).unwrap_or_default();
    Refused { message: format!("exec: {program:?}: {error}"), cannot_run: true }
}

/// The command of a program that is executed beside the first, and both sides of its terminal.
pub(super) fn exec_command(
    spec: &ExecSpec,
    directory: &ContainerDir,
) -> Result<(Command, Option<(OwnedFd, OwnedFd)>), Refused> {
    let process = process_of(directory)?;
    let is_root = rustix::process::geteuid().is_root();
    if spec.engine == Engine::Namespaces {
        super::namespaced::enter(spec.pid)?;
    } else {
        let own = plain_directory(directory, &process)?;
        std::env::set_current_dir(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    }
    let mut command = command_of(&process, Some(&spec.command))?;
    if spec.engine == Engine::Namespaces {
        super::namespaced::limit(&process, !is_root)?;
    } else if is_root {
        become_user(&process)?;
    }
    if !spec.tty {
        return Ok((command, None));
    }
    let (controller, user) = pty::open()?;
    // This process leads the session, for a program of ours could not be executed inside of a container.
    rustix::process::ioctl_tiocsctty(&user).map_err(|error| format!("terminal: {error}"))?;
    launch::terminal_stdio(&mut command, &user)?;
    command.process_group(0);
    Ok((command, Some((controller, user))))
}

/// Hands the terminal to a program that was just started. It may have been stopped, because it read before.
pub(super) fn bring_to_front(terminal: &OwnedFd, child: &Child) {
    let _ = rustix::termios::tcsetpgrp(terminal, child.pid);
    let _ = rustix::process::kill_process_group(child.pid, rustix::process::Signal::CONT);
}
