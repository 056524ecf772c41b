//! Runs a pod by a real runtime, for `docs/interop.md`: `cri_by_hand SOCKET IMAGE LOG-DIRECTORY [CDI-DEVICE]`.
//!
//! The container prints its environment, sleeps, is looked at, stopped and removed.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{error::Error, path::PathBuf, time::Duration};

use lazaret_containers::{
    ContainerSpec, Exec, Identity, Key, Limits, Namespaces, RootFs, Runtime, SandboxSpec,
};
use lazaret_cri::Cri;
use tokio::io::AsyncReadExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, image, logs, devices @ ..] = words.as_slice() else {
        return Err("usage: cri_by_hand SOCKET IMAGE LOG-DIRECTORY [CDI-DEVICE]".into());
    };
    let cri = Cri::connect(socket, "by-hand").await?;
    let found = cri.find_image(image).await?.ok_or("the runtime does not have the image")?;
    println!("image {} {:?}", found.id, found.config);
    let sandbox = SandboxSpec {
        pod_uid: "by-hand".to_owned(),
        namespace: "default".to_owned(),
        name: "by-hand".to_owned(),
        namespaces: Namespaces { host_network: true, ..Namespaces::default() },
        log_directory: PathBuf::from(logs),
        ..SandboxSpec::default()
    };
    let made = cri.run_sandbox(sandbox).await?;
    println!("sandbox {} ready: {}", made.id, made.is_ready);
    let key = Key { pod_uid: "by-hand".to_owned(), name: "main".to_owned(), attempt: 0 };
    let command = ["/bin/sh", "-c", "env; id; exec sleep 1000"].map(str::to_owned).to_vec();
    let container = ContainerSpec {
        env: vec!["OWN=1".to_owned()],
        working_directory: "/".into(),
        cdi_devices: devices.to_vec(),
        identity: Identity { uid: 1000, gid: 1000, groups: vec![44], lookup: None },
        limits: Limits { memory: Some(64 << 20), ..Limits::default() },
        image: image.clone(),
        image_id: found.id,
        ..ContainerSpec::new(key, RootFs::Layers(Vec::new()), command)
    };
    let outcome = live(&cri, &made.id, container).await;
    cri.remove_sandbox(&made.id).await?;
    println!("left: {:?}", cri.list().await?);
    outcome
}

async fn live(cri: &Cri, sandbox: &str, container: ContainerSpec) -> Result<(), Box<dyn Error>> {
    let id = cri.create(sandbox, container).await?;
    cri.start(&id).await?;
    let command = vec!["/bin/echo".to_owned(), "from a probe".to_owned()];
    let running = cri.exec(&id, Exec { command, ..Exec::default() }).await?;
    let mut output = String::new();
    if let Some(mut stdout) = running.streams.stdout {
        stdout.read_to_string(&mut output).await?;
    }
    println!("exec {:?} exit {:?}", output, running.exit.await?);
    // The first figures come a while after the start.
    println!("usage {:?}", cri.usage(&id).await);
    for state in cri.list().await? {
        println!("listed {:?}", state.containers);
        println!("log:\n{}", std::fs::read_to_string(&state.containers[0].log)?);
    }
    cri.stop(&id, Duration::from_secs(1)).await?;
    println!("stopped {:?}", cri.list().await?[0].containers[0].phase);
    cri.remove(&id).await?;
    Ok(())
}
