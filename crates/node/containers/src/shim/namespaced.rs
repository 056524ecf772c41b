//! Containers without an OCI runtime: mount, process, IPC and host name namespaces of our own, inside a user namespace
//! where we are not root.
//!
//! The first stage makes them and mounts what the container sees; it cannot enter the process namespace, so it starts
//! the second, which is the first process there, takes the new root and becomes the program.

use std::{
    fs,
    io::Write,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use rustix::{
    mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount_bind_recursive, mount_change, mount_remount,
        unmount,
    },
    process::{Pid, PidfdFlags, geteuid, pidfd_open, pivot_root},
    thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces},
};
use serde_json::Value;

use super::{
    Reexec,
    handshake::Stage,
    hold::unshare,
    oci::Refused,
    rootfs,
    stage::{args_of, become_user, command_of, not_executed, session},
};
use crate::{
    RootFs,
    layout::{self, ContainerDir, SandboxDir},
    overlay,
    record::{ContainerRecord, SandboxRecord, ShimSpec},
};

fn config_of(directory: &ContainerDir) -> Result<Value, Refused> {
    let config: Option<Value> =
        layout::read(&directory.bundle().join("config.json")).map_err(|error| error.to_string())?;
    config.ok_or_else(|| "config.json is not there".to_owned().into())
}

pub(super) fn first(directory: &ContainerDir, reexec: &Reexec) -> Result<ExitCode, Refused> {
    let config = config_of(directory)?;
    let record: Option<ContainerRecord> =
        layout::read(&directory.record()).map_err(|error| error.to_string())?;
    let record = record.ok_or_else(|| "container.json is not there".to_owned())?;
    let sandbox = sandbox_of(directory)?;
    let is_root = geteuid().is_root();
    enter_new(is_root, &sandbox)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
        .map_err(|error| format!("make mounts our own: {error}"))?;
    if let Some(hostname) = sandbox.spec.hostname.as_ref().filter(|_| !sandbox.spec.namespaces.host_network) {
        rustix::system::sethostname(hostname.as_bytes()).map_err(|error| format!("hostname: {error}"))?;
    }
    let root = directory.rootfs();
    mount_root(directory, &record.spec.root, is_root)
        .map_err(|error| format!("root file system: {error}"))?;
    rootfs::mount_entries(&root, &config)?;
    // Opened before there is a second stage: its new root becomes ours as well, for we share its mounts, and then no path leads here.
    let pid_path = pid_file(directory);
    let failed = |error: std::io::Error| format!("{}: {error}", pid_path.display());
    let mut pid_file = fs::File::create(&pid_path).map_err(failed)?;
    let mut command = reexec.command("init");
    command.arg(&directory.0).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut second = command.spawn().map_err(|error| format!("second stage: {error}"))?;
    // Not waited for here: whether it still runs or not, it is handed to the shim with our end.
    if let Err(error) = write!(pid_file, "{}", second.id()) {
        let _ = second.kill();
        return Err(failed(error).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the first stage leaves the process id of the second.
pub(super) fn pid_file(directory: &ContainerDir) -> PathBuf {
    directory.0.join("pid")
}

fn sandbox_of(directory: &ContainerDir) -> Result<SandboxRecord, Refused> {
    let parent =
        directory.0.parent().and_then(Path::parent).ok_or_else(|| "there is no sandbox".to_owned())?;
    let record: Option<SandboxRecord> =
        layout::read(&SandboxDir(parent.to_owned()).record()).map_err(|error| error.to_string())?;
    record.ok_or_else(|| "sandbox.json is not there".to_owned().into())
}

fn enter_new(is_root: bool, sandbox: &SandboxRecord) -> Result<(), Refused> {
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, !sandbox.spec.namespaces.host_pid);
    flags.set(UnshareFlags::NEWIPC, !sandbox.spec.namespaces.host_ipc);
    flags.set(UnshareFlags::NEWUTS, !sandbox.spec.namespaces.host_network);
    flags.set(UnshareFlags::NEWUSER, !is_root);
    let (uid, gid) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(flags)?;
    if !is_root {
        // In this order: without the first, only root may write the last.
        let files = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {uid} 1")),
            ("gid_map", format!("0 {gid} 1")),
        ];
        for (name, text) in files {
            fs::write(format!("/proc/self/{name}"), text).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

fn mount_root(directory: &ContainerDir, root: &RootFs, is_root: bool) -> std::io::Result<()> {
    let target = directory.rootfs();
    fs::create_dir_all(&target)?;
    match root {
        RootFs::Directory(path) => {
            mount_bind_recursive(path, &target)?;
        }
        RootFs::Layers(layers) => {
            let [upper, work] = ["upper", "work"].map(|name| directory.0.join(name));
            let access = if is_root { overlay::Attributes::Trusted } else { overlay::Attributes::User };
            overlay::mount_layers(layers, &upper, &work, &target, access)?;
        }
    }
    Ok(())
}

pub(super) fn second(directory: &ContainerDir, stage: &Stage) -> Result<ExitCode, Refused> {
    let config = config_of(directory)?;
    let spec: Option<ShimSpec> = layout::read(&directory.shim_spec()).map_err(|error| error.to_string())?;
    let tty = spec.is_some_and(|spec| spec.tty);
    let root = directory.rootfs();
    rootfs::mount_proc(&root, &config)?;
    take_root(&root, config["root"]["readonly"] == true)
        .map_err(|error| format!("take the root: {error}"))?;
    session(tty)?;
    let process = &config["process"];
    if let Some(score) = process["oomScoreAdj"].as_i64() {
        let _ = fs::write("/proc/self/oom_score_adj", score.to_string());
    }
    let place = process["cwd"].as_str().unwrap_or("/");
    let _ = fs::create_dir_all(place);
    std::env::set_current_dir(place)
        .map_err(|error| Refused { message: format!("chdir to {place:?}: {error}"), cannot_run: true })?;
    let mut command = command_of(process, None)?;
    limit(process, has_one_user())?;
    stage.ready()?;
    let error = command.exec();
    Err(not_executed(&args_of(process), &error))
}

/// Gives up what the container may not have: capabilities, and gaining any.
pub(super) fn limit(process: &Value, has_one_user: bool) -> Result<(), Refused> {
    rootfs::drop_capabilities(process)?;
    if !has_one_user {
        become_user(process)?;
    }
    if process["noNewPrivileges"] == true {
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    }
    Ok(())
}

/// Whether there is no other user to become, as in a user namespace that was made without root.
fn has_one_user() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2) == Some("1")
}

/// Makes a directory the root, and lets go of the old one.
fn take_root(root: &Path, read_only: bool) -> std::io::Result<()> {
    std::env::set_current_dir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")?;
    if read_only {
        let root = std::fs::File::open("/")?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | rootfs::kept_flags(&root)?;
        mount_remount("/", flags, c"")?;
    }
    Ok(())
}

/// Enters the namespaces of a container; children of this process are in them wholly.
pub(super) fn enter(pid: u32) -> Result<(), Refused> {
    let pid =
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| "there is no process".to_owned())?;
    let handle: OwnedFd =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| format!("the container's process: {error}"))?;
    let mut kinds = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    kinds.set(ThreadNameSpaceType::USER, !geteuid().is_root());
    move_into_thread_name_spaces(std::os::fd::AsFd::as_fd(&handle), kinds)
        .map_err(|error| format!("enter the container: {error}").into())
}
