//! One tenant attacks with many clients; meanwhile an administrator asks, health is checked and pods are evicted at a pace.

mod attack;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::attack::Attack;
use super::{evict, schedule};
use crate::{
    bench::Bench,
    clock,
    load::{self, LoadEnd, Shape},
    objects::{LABEL, NAMESPACES, meta},
    report::{Phase, Report},
    target::Target,
};
use lazaret_print::note;

/// Objects that the tenant lists.
const OBJECTS: usize = 2_000;
/// A probe asks this often.
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// How long the machine is measured before the attack.
const CALM: Duration = Duration::from_secs(3);
/// The attack goes on this long before pods are evicted.
const LEAD: Duration = Duration::from_secs(3);

pub(super) async fn play(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    ensure!(
        bench.args.kubeconfig.is_none(),
        "hostile attacks a lazaret started for the run: leave out --kubeconfig"
    );
    let pods = schedule::play(bench, report).await?;
    let (tenant, anonymous) = prepare(bench).await?;
    let path = format!("{NAMESPACES}/{}", bench.namespace);
    note("an administrator asks, before the attack");
    let done = Rc::new(Cell::new(false));
    let calm = Probe::begin(&bench.target, &path, &done);
    tokio::time::sleep(CALM).await;
    done.set(true);
    report.phases.push(calm.end("GET by an administrator, calm").await?);

    note("the attack begins");
    let done = Rc::new(Cell::new(false));
    let attack = Attack::begin(&tenant, &bench.namespace, bench.args.clients)?;
    let admin = Probe::begin(&bench.target, &path, &done);
    let ready = Probe::begin(&anonymous, "/readyz", &done);
    tokio::time::sleep(LEAD).await;
    let left = evict::leave(bench, report, &pods).await;
    let rest = Duration::from_secs(bench.args.seconds).saturating_sub(LEAD);
    tokio::time::sleep(rest).await;
    done.set(true);
    let (answers, refusals) = attack.counts();
    report.phases.push(admin.end("GET by an administrator, attacked").await?);
    report.phases.push(ready.end("/readyz by anybody, attacked").await?);
    #[allow(clippy::cast_precision_loss, reason = "counts")]
    {
        report.figure("hostile clients", bench.args.clients as f64, "");
        report.figure("their requests that were answered", answers as f64, "");
        report.figure("their requests that were refused", refusals as f64, "");
    }
    left
}

/// The tenant: an account that may edit one namespace. And a client without credentials.
async fn prepare(bench: &mut Bench<'_>) -> Result<(Target, Target)> {
    let namespace = format!("{NAMESPACES}/{}", bench.namespace);
    let account = json!({"metadata": meta(&bench.run, "tenant")});
    bench.caller.create(&format!("{namespace}/serviceaccounts"), &account).await?;
    let binding = json!({
        "metadata": meta(&bench.run, "tenant"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": bench.namespace}],
    });
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", bench.namespace);
    bench.caller.create(&bindings, &binding).await?;
    let request = json!({"spec": {}});
    let token = bench.caller.create(&format!("{namespace}/serviceaccounts/tenant/token"), &request).await?;
    let token = token["status"]["token"].as_str().context("the tenant's token")?.to_owned();
    let (target, path, run) = (bench.target.clone(), format!("{namespace}/configmaps"), bench.run.clone());
    let shape = Shape { clients: 16, until: LoadEnd::Sent(OBJECTS), rate: 0 };
    let filler = "x".repeat(2_000);
    let request = move |number: usize| {
        let object = format!(
            r#"{{"metadata":{{"name":"map-{number}","labels":{{"{LABEL}":"{run}"}}}},"data":{{"key":"{filler}"}}}}"#
        );
        target.post(&path, &object)
    };
    load::run(&bench.target, shape, request, |_, _| {}).await?;
    let anonymous = bench.target.without_credentials()?;
    Ok((anonymous.with_token(&token), anonymous))
}

/// One request over and over, at a pace that does not depend on the answers.
struct Probe {
    start: Instant,
    measured: Rc<RefCell<Vec<(Duration, Instant)>>>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Probe {
    fn begin(target: &Target, path: &str, done: &Rc<Cell<bool>>) -> Self {
        let measured = Rc::new(RefCell::new(Vec::new()));
        let (target, request) = (target.clone(), target.get(path));
        let (found, done) = (Rc::clone(&measured), Rc::clone(done));
        let task = tokio::task::spawn_local(async move {
            let mut connection = target.connect().await?;
            while !done.get() {
                let asked = clock::now();
                let answer = connection.ask(&request).await?;
                ensure!(answer.code == 200, "a probe was refused: {}", answer.refusal());
                found.borrow_mut().push((asked.elapsed(), clock::now()));
                tokio::time::sleep(PROBE_EVERY).await;
            }
            Ok(())
        });
        Self { start: clock::now(), measured, task }
    }

    async fn end(self, name: &str) -> Result<Phase> {
        self.task.await?.with_context(|| name.to_owned())?;
        Ok(Phase::new(name, self.start, &self.measured.take()))
    }
}
