//! `hold`: makes the namespaces of a sandbox and mounts them where containers find them. No process stays, but for the
//! first one of a shared process namespace, without which there is none.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::Path,
    process::{ExitCode, Stdio},
};

use rustix::{
    mount::{MountFlags, mount, mount_bind},
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    process::{WaitOptions, wait},
    thread::UnshareFlags,
};

use super::Reexec;
use crate::{
    layout::{self, SandboxDir},
    record::HoldSpec,
};

/// The lock that the first process of a shared namespace holds.
pub(crate) fn pause_lock(directory: &SandboxDir) -> std::path::PathBuf {
    directory.0.join("pause.lock")
}

/// Its process id on the host.
pub(crate) fn pause_pid(directory: &SandboxDir) -> std::path::PathBuf {
    directory.0.join("pause.pid")
}

pub(super) fn main(path: &Path, reexec: &Reexec) -> Result<ExitCode, String> {
    let spec: Option<HoldSpec> = layout::read(path).map_err(|error| error.to_string())?;
    let spec = spec.ok_or_else(|| format!("{} is not there", path.display()))?;
    end_with(spec.agent)?;
    let directory = SandboxDir(spec.directory.clone());
    let has = |kind: &str| spec.namespaces.iter().any(|other| other == kind);
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWNET, has("net"));
    flags.set(UnshareFlags::NEWIPC, has("ipc"));
    flags.set(UnshareFlags::NEWUTS, has("uts"));
    flags.set(UnshareFlags::NEWPID, has("pid"));
    unshare(flags)?;
    if let Some(hostname) = spec.hostname.as_ref().filter(|_| has("uts")) {
        rustix::system::sethostname(hostname.as_bytes())
            .map_err(|error| format!("hostname {hostname}: {error}"))?;
    }
    if has("net") {
        loopback_up().map_err(|error| format!("loopback: {error}"))?;
    }
    for (name, value) in &spec.sysctls {
        sysctl(name, value, &has)?;
    }
    if let Some(bytes) = spec.shm_bytes {
        mount_shm(&directory, bytes).map_err(|error| format!("/dev/shm: {error}"))?;
    }
    let mut sources: Vec<(&str, String)> = ["net", "ipc", "uts"]
        .into_iter()
        .filter(|kind| has(kind))
        .map(|kind| (kind, format!("/proc/self/ns/{kind}")))
        .collect();
    let mut pause = None;
    if has("pid") {
        let spawned = spawn_pause(&directory, reexec)?;
        sources.push(("pid", format!("/proc/{}/ns/pid", spawned.pid)));
        pause = Some(spawned);
    }
    for (kind, source) in sources {
        let target = directory.namespace(kind);
        let bind = || -> std::io::Result<()> {
            File::create(&target)?;
            Ok(mount_bind(source.as_str(), &target)?)
        };
        bind().map_err(|error| format!("{}: {error}", target.display()))?;
    }
    if let Some(mut pause) = pause {
        pause.stay.write_all(b"s").map_err(|error| format!("first process: {error}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends this process with the one that waits for it: no other would record, or remove, what it makes.
fn end_with(parent: u32) -> Result<(), String> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("end with the agent: {error}"))?;
    let own = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    // It may have ended before that.
    if own == Some(parent) { Ok(()) } else { Err("the agent is gone".to_owned()) }
}

/// Leaves the namespaces of this process' parent. Safe here: this process has one thread, and keeps its files.
#[expect(deprecated, reason = "its successor is unsafe for a flag that is not used here, CLONE_FILES")]
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), String> {
    rustix::thread::unshare(flags).map_err(|error| format!("make namespaces {flags:?}: {error}"))
}

fn mount_shm(directory: &SandboxDir, bytes: u64) -> std::io::Result<()> {
    fs::create_dir_all(directory.shm())?;
    let options = std::ffi::CString::new(format!("mode=1777,size={bytes}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("shm", directory.shm(), "tmpfs", flags, options.as_c_str())?)
}

/// Sets a kernel setting of the namespaces that were just made.
fn sysctl(name: &str, value: &str, has: &impl Fn(&str) -> bool) -> Result<(), String> {
    if !belongs_to_pod(name, has) {
        return Err(format!(
            "sysctl {name} does not belong to a namespace that the pod has for itself on this node"
        ));
    }
    // A dot separates; a slash stands for a dot in a name, as in net.ipv4.conf.eth0/1.forwarding.
    let path: String = name
        .chars()
        .map(|char| match char {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect();
    fs::write(Path::new("/proc/sys").join(path), value).map_err(|error| format!("sysctl {name}: {error}"))
}

/// Whether a setting is one of a namespace that was made. Others are the host's: those of all machines, and those of the network and of messages and shared
/// memory where the pod has the host's.
fn belongs_to_pod(name: &str, has: &impl Fn(&str) -> bool) -> bool {
    let kinds = [
        ("net.", "net"),
        ("kernel.shm", "ipc"),
        ("kernel.msg", "ipc"),
        ("kernel.sem", "ipc"),
        ("fs.mqueue.", "ipc"),
    ];
    let kind = kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix));
    kind.is_some_and(|(_, kind)| has(kind)) && !name.contains("..")
}

/// Asks the kernel to bring up the first interface, which is `lo` in every new namespace.
fn loopback_up() -> std::io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
    const UP: u32 = 1;
    // The first of netlink's protocols is the one of routes and links.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::with_capacity(32);
    message.extend_from_slice(&32_u32.to_ne_bytes());
    message.extend_from_slice(&NEW_LINK.to_ne_bytes());
    message.extend_from_slice(&REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // sequence and sender
    message.extend_from_slice(&[0; 4]); // family and type
    message.extend_from_slice(&1_i32.to_ne_bytes());
    message.extend_from_slice(&UP.to_ne_bytes());
    message.extend_from_slice(&UP.to_ne_bytes()); // which flags change
    rustix::io::write(&socket, &message)?;
    let mut answer = [0; 1024];
    let count = rustix::io::read(&socket, &mut answer)?;
    match answer[..count].get(16..20) {
        Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(-error)),
        },
        _ => Err(std::io::Error::other("the kernel's answer is too short")),
    }
}

/// The first process of a shared namespace. It ends when this is dropped, unless it was told to stay.
struct Pause {
    pid: u32,
    stay: std::process::ChildStdin,
}

fn spawn_pause(directory: &SandboxDir, reexec: &Reexec) -> Result<Pause, String> {
    let failed = |error: std::io::Error| format!("first process: {error}");
    let silent = || "first process: it has no pipes".to_owned();
    let mut command = reexec.command("pause");
    command.arg(&directory.0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let (stay, mut stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(silent)?;
    stdout.read_exact(&mut [0]).map_err(|_| "the first process did not begin".to_owned())?;
    fs::write(pause_pid(directory), child.id().to_string()).map_err(failed)?;
    Ok(Pause { pid: child.id(), stay })
}

/// The first process of a shared namespace: reaps whatever loses its parent. One child that never ends keeps it waiting
/// when there is no other child to wait for.
pub(super) fn pause(path: &Path, reexec: &Reexec) -> Result<ExitCode, String> {
    let _ = rustix::process::setsid();
    let _lock = layout::hold_lock(&pause_lock(&SandboxDir(path.to_owned())))
        .map_err(|error| format!("lock: {error}"))?;
    let _ = rustix::io::write(std::io::stdout(), b"b");
    if std::io::stdin().read_exact(&mut [0]).is_err() {
        return Err("nobody needs the first process".to_owned());
    }
    let mut command = reexec.command("sleep");
    let _sleeper = command.stdin(Stdio::piped()).spawn().map_err(|error| format!("sleep: {error}"))?;
    while rustix::io::retry_on_intr(|| wait(WaitOptions::empty())).is_ok() {}
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of its input, which comes with the end of its parent.
pub(super) fn sleep() -> Result<ExitCode, String> {
    let mut nothing = [0; 1];
    let _ = std::io::stdin().read(&mut nothing);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::belongs_to_pod;

    #[test]
    fn settings_of_the_host_are_not_changed_for_a_pod() {
        let rows: [(&str, &[&str], bool); 8] = [
            ("net.ipv4.ip_local_port_range", &["net", "ipc"], true),
            // Without a network of its own the pod has the host's.
            ("net.ipv4.ip_local_port_range", &["ipc", "uts"], false),
            ("kernel.shm_rmid_forced", &["ipc"], true),
            ("kernel.shm_rmid_forced", &["net"], false),
            ("fs.mqueue.msg_max", &[], false),
            ("kernel.core_pattern", &["net", "ipc", "uts", "pid"], false),
            ("vm.swappiness", &["net", "ipc"], false),
            ("net./../kernel/core_pattern", &["net"], false),
        ];
        for (name, made, expected) in rows {
            assert_eq!(belongs_to_pod(name, &|kind| made.contains(&kind)), expected, "{name} {made:?}");
        }
    }
}
