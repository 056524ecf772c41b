//! Pods with classic claims: a driver that answers each call in a millisecond allocates them, beside the control plane.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use lazaret_driver::controller::ControllerKit;
use lazaret_example::{Fabric, FabricOptions};
use serde_json::{Value, json};

use super::schedule::sent;
use crate::{
    bench::Bench,
    load::{self, LoadEnd, Shape},
    objects::{self, meta, pods_path},
    pods::{Pods, name},
    report::Report,
};

const DRIVER: &str = "fabric.bench.lazaret.dev";
const CLASSES: &str = "/apis/cdi.k8s.io/v1alpha1/resourceclasses";
/// Each call of the driver takes this long.
const DELAY: Duration = Duration::from_millis(1);

/// Makes the pods, and waits until all of them run.
pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    ensure!(
        args.kubeconfig.is_none(),
        "classic measures a lazaret of this build, because claims cannot go without their driver: leave out --kubeconfig"
    );
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    let class = json!({"metadata": meta(&bench.run, &bench.run), "driverName": DRIVER});
    bench.caller.create(CLASSES, &class).await?;
    let fabric = Fabric::new(FabricOptions {
        devices: args.pods * args.claims_per_pod,
        ports_per_node: (args.pods * args.claims_per_pod).div_ceil(args.nodes).saturating_mul(2),
        delay: DELAY,
        user_limit: 1,
    });
    let controller = ControllerKit::new(DRIVER, client(bench).await?).start(fabric);
    let pods = Pods::watch(&bench.target, &bench.namespace).await?;
    let shape = Shape { clients: args.clients, until: LoadEnd::Sent(args.pods), rate: args.rate_of_pods() };
    let (target, path) = (bench.target.clone(), pods_path(&bench.namespace));
    let text = pod(&bench.run, args.claims_per_pod).to_string();
    let request = move |number: usize| target.post(&path, &text.replacen(NAME, &name(number), 1));
    let outcome = {
        let made = load::run(&bench.target, shape, request, sent(&pods));
        let all = pods.wait("pods running", args.pods, |counts| counts.running);
        let (made, ()) = tokio::try_join!(made, all)?;
        made
    };
    report.phases.push(outcome.phase("create answered"));
    report.phases.push(pods.phase("created to bound", outcome.start, |seen| seen.bound));
    report.phases.push(pods.phase("created to running", outcome.start, |seen| seen.running));
    controller.stop().await;
    Ok(())
}

async fn client(bench: &Bench<'_>) -> Result<kube::Client> {
    let path = bench.kubeconfig.as_deref().context("find the kubeconfig of the server under measurement")?;
    let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Stands for the name of a pod.
const NAME: &str = "%NAME%";

fn pod(run: &str, claims: usize) -> Value {
    let names: Vec<Value> = (0..claims).map(|number| format!("gpu-{number}").into()).collect();
    let refs: Vec<Value> = (0..claims)
        .map(|number| json!({"name": format!("gpu-{number}"), "template": {"resourceClassName": run}}))
        .collect();
    json!({
        "metadata": meta(run, NAME),
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "work", "image": "work", "resources": {"claims": names}}],
            "resourceClaims": refs,
        },
    })
}
