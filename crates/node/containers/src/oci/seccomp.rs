//! The system calls that a container may make when its pod asks for the runtime's default profile.
//!
//! An allow-list: what is not here answers `EPERM`. The calls are those that containerd and Docker allow; calls that
//! need a capability are allowed to containers that have it. `io_uring_*` is not among them, as in containerd since 1.7.

use serde_json::{Value, json};

/// The machine for which calls are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// `amd64`, with its 32-bit forms.
    X86_64,
    /// `arm64`, with its 32-bit form.
    Aarch64,
}

impl Architecture {
    /// This machine's; none when there is no list for it.
    pub(crate) fn here() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
            Self::Aarch64 => &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        }
    }

    fn own_calls(self) -> &'static str {
        match self {
            Self::X86_64 => "arch_prctl modify_ldt",
            Self::Aarch64 => {
                "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls"
            }
        }
    }
}

/// Allowed to all.
const ALLOWED: &str = "\
    accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32 clock_adjtime \
    clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep \
    clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 \
    epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit \
    exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 \
    fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat \
    fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait \
    futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid \
    getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid \
    getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname \
    getsockopt gettid gettimeofday getuid getuid32 getxattr inotify_add_watch inotify_init inotify_init1 \
    inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl \
    ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32 \
    lgetxattr link linkat listen listmount listxattr llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 \
    madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 \
    mlockall mmap mmap2 mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend \
    mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap \
    name_to_handle_at nanosleep newfstatat _newselect open openat openat2 pause pidfd_open pidfd_send_signal pipe \
    pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 \
    process_mrelease process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 \
    read readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages \
    removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask \
    rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo \
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler \
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam \
    sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile \
    sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid \
    setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid \
    setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr shmat \
    shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketcall socketpair splice \
    stat stat64 statfs statfs64 statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill \
    time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 \
    timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate \
    truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork vmsplice wait4 \
    waitid waitpid write writev";

/// Allowed to who has the capability.
const BY_CAPABILITY: &[(&str, &str)] = &[
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    (
        "CAP_SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr lsm_list_modules \
         lsm_set_self_attr mount mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname \
         sethostname setns syslog umount umount2 unshare",
    ),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "delete_module finit_module init_module"),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("CAP_SYS_RAWIO", "ioperm iopl"),
    ("CAP_SYS_TIME", "clock_settime clock_settime64 settimeofday stime"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
    ("CAP_SYS_NICE", "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"),
    ("CAP_SYSLOG", "syslog"),
    ("CAP_BPF", "bpf"),
    ("CAP_PERFMON", "perf_event_open"),
];

/// Personalities that change nothing of security: Linux, 32 bits, and asking for the present one.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// The flags of `clone` that make namespaces.
const CLONE_NAMESPACES: u64 = 0x7e02_0000;
/// Sockets between virtual machines know no network namespace.
const AF_VSOCK: u64 = 40;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The filter of a container with these capabilities.
pub(super) fn profile(architecture: Architecture, capabilities: &[&str]) -> Value {
    let mut names: Vec<&str> =
        ALLOWED.split_whitespace().chain(architecture.own_calls().split(' ')).collect();
    for (capability, calls) in BY_CAPABILITY {
        if capabilities.contains(capability) {
            names.extend(calls.split_whitespace());
        }
    }
    let allow = |name: &str, index: u32, value: u64, operator: &str| {
        let arguments = [json!({"index": index, "value": value, "op": operator})];
        json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": arguments})
    };
    let mut calls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        allow("socket", 0, AF_VSOCK, "SCMP_CMP_NE"),
    ];
    calls.extend(PERSONALITIES.map(|value| allow("personality", 0, value, "SCMP_CMP_EQ")));
    if !capabilities.contains(&"CAP_SYS_ADMIN") {
        let masked =
            [json!({"index": 0, "value": CLONE_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})];
        calls.push(json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": masked}));
        // Its flags are in memory, where a filter does not see them. A C library then uses `clone`.
        calls.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS}));
    }
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": architecture.names(),
        "syscalls": calls,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_twice_in_the_list_and_none_of_a_capability_is_in_it() {
        let all: Vec<&str> = ALLOWED.split_whitespace().collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), once.len());
        for (capability, calls) in BY_CAPABILITY {
            for call in calls.split_whitespace() {
                assert!(!once.contains(call), "{call} needs {capability}");
            }
        }
        for call in ["mount", "bpf", "kexec_load", "io_uring_setup", "keyctl", "add_key", "socket", "clone"] {
            assert!(!once.contains(call), "{call}");
        }
    }

    #[test]
    fn who_may_administer_may_mount() {
        let names = |capabilities: &[&str]| {
            profile(Architecture::X86_64, capabilities)["syscalls"][0]["names"].clone()
        };
        assert!(names(&["CAP_SYS_ADMIN"]).as_array().unwrap().contains(&json!("mount")));
        assert!(!names(&["CAP_CHOWN"]).as_array().unwrap().contains(&json!("mount")));
    }
}
