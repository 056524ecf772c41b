//! How long a container takes to be made and started, and what its shim needs:
//! `cargo run --release -p lazaret-containers --example measure -- SHIM [RUNTIME] [COUNT]`.

use std::{error::Error, fs, io::Write, path::Path, time::Duration};

use lazaret_containers::{ContainerSpec, Key, Limits, Options, Phase, RootFs, SandboxSpec, Security, probe};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let shim = args.next().ok_or("the path of a shim is missing")?;
    let runtime = args.next().map_or_else(|| "runc".to_owned(), |name| name.to_string_lossy().into_owned());
    let count: u32 = args.next().and_then(|count| count.to_str()?.parse().ok()).unwrap_or(30);
    let folder = std::env::temp_dir().join(format!("lazaret-measure-{}", std::process::id()));
    let options = Options { shim: vec![shim], ..Options::new(folder.join("state")) };
    let image = folder.join("image");
    fs::create_dir_all(image.join("bin"))?;
    fs::copy("/bin/busybox", image.join("bin/sleep"))?;
    let runtime = probe(runtime.parse()?, options.clone()).await?;
    let pod = format!("measure-{}", std::process::id());
    let began = Instant::now();
    let sandbox =
        SandboxSpec { pod_uid: pod.clone(), log_directory: folder.join("logs"), ..SandboxSpec::default() };
    runtime.run_sandbox(sandbox).await?;
    let mut out = std::io::stdout();
    writeln!(out, "runtime {}, sandbox {:?}", runtime.name(), began.elapsed())?;
    let (mut creates, mut starts, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory = Vec::new();
    for attempt in 0..count {
        let began = Instant::now();
        let id = runtime.create(&pod, sleep(&pod, attempt, &image)).await?;
        let created = began.elapsed();
        runtime.start(&id).await?;
        creates.push(created);
        starts.push(began.elapsed() - created);
        both.push(began.elapsed());
        let lock = options
            .state
            .join(runtime.name())
            .join(format!("sandboxes/{pod}/containers/sleep-{attempt}/lock"));
        memory.push(private_kib(fs::read_to_string(lock)?.trim())?);
        let list = runtime.list().await?;
        let runs = list
            .iter()
            .flat_map(|sandbox| &sandbox.containers)
            .filter(|state| matches!(state.phase, Phase::Running { .. }));
        writeln!(out, "{attempt}: {:?}, {} run", began.elapsed(), runs.count())?;
    }
    for (name, times) in [("create", &mut creates), ("start", &mut starts), ("create and start", &mut both)] {
        writeln!(out, "{name}: p50 {:?}, most {:?}", middle(times), times.last())?;
    }
    memory.sort_unstable();
    writeln!(out, "shim: private memory p50 {} KiB, most {:?} KiB", memory[memory.len() / 2], memory.last())?;
    let began = Instant::now();
    runtime.remove_sandbox(&pod).await?;
    writeln!(out, "removed after {:?}", began.elapsed())?;
    Ok(fs::remove_dir_all(&folder)?)
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn private_kib(pid: &str) -> Result<u64, Box<dyn Error>> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let lines = rollup.lines().filter(|line| line.starts_with("Private_"));
    Ok(lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}

fn sleep(pod: &str, attempt: u32, image: &Path) -> ContainerSpec {
    let key = Key { pod_uid: pod.to_owned(), name: "sleep".to_owned(), attempt };
    let command = vec!["/bin/sleep".to_owned(), "100000".to_owned()];
    ContainerSpec {
        working_directory: "/".into(),
        security: Security { seccomp: lazaret_containers::Seccomp::RuntimeDefault, ..Security::default() },
        limits: Limits { memory: Some(64 << 20), pids: Some(32), ..Limits::default() },
        ..ContainerSpec::new(key, RootFs::Layers(vec![image.to_owned()]), command)
    }
}
