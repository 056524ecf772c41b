//! Pods with claims are made by several clients at once; a watch says when each was bound and when it ran.

use std::rc::Rc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    load::{self, LoadEnd, Shape},
    objects::{self, meta, pods_path},
    pods::{Pods, name},
    report::Report,
};

/// Makes the pods, waits until all of them run, and leaves them there.
pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<Rc<Pods>> {
    let args = bench.args;
    let wanted = args.pods * args.claims_per_pod;
    let there = args.nodes * args.devices;
    ensure!(
        wanted <= there,
        "{wanted} devices are wanted and there are {there}: fewer --pods, or more --nodes or --devices"
    );
    prepare(bench).await?;
    let pods = Pods::watch(&bench.target, &bench.namespace).await?;
    let shape = Shape { clients: args.clients, until: LoadEnd::Sent(args.pods), rate: args.rate_of_pods() };
    let outcome = {
        let made = load::run(&bench.target, shape, request(bench), sent(&pods));
        let all = pods.wait("pods running", args.pods, |counts| counts.running);
        let (made, ()) = tokio::try_join!(made, all)?;
        made
    };
    report.phases.push(outcome.phase("create answered"));
    report.phases.push(pods.phase("created to bound", outcome.start, |seen| seen.bound));
    report.phases.push(pods.phase("created to running", outcome.start, |seen| seen.running));
    Ok(pods)
}

/// The namespace, the templates of claims, and the rules that mean nothing.
pub(super) async fn prepare(bench: &mut Bench<'_>) -> Result<()> {
    objects::make_namespace(&mut bench.caller, &bench.run, &bench.namespace).await?;
    let path = objects::templates_path(&bench.namespace);
    for (name, tolerations) in [("one", json!([])), ("tolerant", json!([{"operator": "Exists"}]))] {
        let mut exactly = json!({"deviceClassName": bench.fleet.driver, "tolerations": tolerations});
        if let Some(expression) = &bench.args.cel {
            exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
        }
        let template = json!({
            "metadata": meta(&bench.run, name),
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
        });
        bench.caller.create(&path, &template).await?;
    }
    let (run, driver) = (bench.run.clone(), bench.fleet.driver.clone());
    let rule = move |number: usize| {
        json!({
            "metadata": meta(&run, &format!("{run}-nothing-{number}")),
            "spec": {
                "deviceSelector": {"driver": driver, "pool": format!("nowhere-{number}")},
                "taint": {"key": "lazaret.dev/bench", "effect": "NoExecute"},
            },
        })
    };
    let target = bench.target.clone();
    let shape = Shape { clients: bench.args.clients, until: LoadEnd::Sent(bench.args.rules), rate: 0 };
    load::run(
        &bench.target,
        shape,
        move |number| target.post(objects::RULES, &rule(number).to_string()),
        |_, _| {},
    )
    .await?;
    Ok(())
}

/// Whether the pod with this number tolerates every taint.
pub(super) fn tolerates(number: usize, percent: u32) -> bool {
    // Spread evenly: of any hundred in a row, `percent` do.
    number * 37 % 100 < usize::try_from(percent).unwrap_or(100)
}

/// Makes the requests that create pods. The part that pods have in common is written once.
pub(super) fn request(bench: &Bench<'_>) -> impl Fn(usize) -> Vec<u8> + 'static {
    let (target, path) = (bench.target.clone(), pods_path(&bench.namespace));
    let percent = bench.args.tolerate;
    let text = |template: &str| pod(&bench.run, template, bench.args.claims_per_pod).to_string();
    let (plain, tolerant) = (text("one"), text("tolerant"));
    move |number| {
        let text = if tolerates(number, percent) { &tolerant } else { &plain };
        target.post(&path, &text.replacen(NAME, &name(number), 1))
    }
}

/// Stands for the name of a pod.
const NAME: &str = "%NAME%";

fn pod(run: &str, template: &str, claims: usize) -> Value {
    let names: Vec<Value> = (0..claims).map(|number| json!({"name": format!("gpu-{number}")})).collect();
    let refs: Vec<Value> = (0..claims)
        .map(|number| json!({"name": format!("gpu-{number}"), "resourceClaimTemplateName": template}))
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

/// Notes when a pod was asked for.
pub(super) fn sent(pods: &Rc<Pods>) -> impl Fn(usize, std::time::Instant) + 'static {
    let pods = Rc::clone(pods);
    move |number, at| pods.sent(number, at)
}

#[cfg(test)]
mod tests {
    use super::tolerates;

    #[test]
    fn of_a_hundred_so_many_tolerate() {
        for percent in [0, 1, 30, 99, 100] {
            let count = (500..600).filter(|number| tolerates(*number, percent)).count();
            assert_eq!(count, usize::try_from(percent).unwrap());
        }
    }
}
