//! `kubectl device drain` and `uncordon`.

use lazaret_model::{DeviceId, Effect, Timestamp};
use serde_json::Value;

use super::{
    Session,
    follow::Follow,
    load::{Loaded, Need, load},
    plan, select,
    write::{meta_of, whoami, write},
};
use crate::{
    Error, Verdict,
    api::{DryRun, Resource},
    args::{DrainArgs, Uncordon},
    output::count,
    view::{
        self, Change, Cluster, DRAIN_KEY, Drain, DrainEvent, Intent, Manner, Order, RuleDraft, TaintSpec,
        changes, drain_taint, exact, pods_seen, row, rule_name, selector_of,
    },
};

/// How often a drain looks at the clock while nothing happens.
const TICK_MS: i64 = 1000;
/// How often it looks for pods that run in place of others once the devices are empty: half a minute.
const LINGER_TICKS_MAX: u32 = 30;

pub(super) async fn run(session: &mut Session<'_>, args: DrainArgs) -> Result<Verdict, Error> {
    let served = session.served().await?;
    let rules = served.rules()?;
    let Loaded { mut cluster, reads } =
        load(session, Need { pods: true, budgets: true, ..Need::default() }).await?;
    let devices = devices(session, &mut cluster, &args).await?;
    let paced_by_server = served.has_pace().then_some(args.evictions_per_second).flatten();
    let targets: Vec<_> = devices.iter().map(selector_of).collect();
    let now = session.now();
    let plan = view::plan(&cluster, now, &targets, &drain_taint(Effect::NoExecute, None));
    let text = plan::text(&plan, now, session.console.colours());
    session.console.line(&text)?;
    match args.dry_run {
        DryRun::None => {}
        DryRun::Client | DryRun::Server => {
            session.console.line(&format!("nothing was changed{}", args.dry_run.suffix()))?;
            return Ok(Verdict::Yes);
        }
    }
    if !args.yes {
        let question = format!(
            "drain {}, making {} leave?",
            count(devices.len(), "device"),
            count(plan.pods.len(), "pod")
        );
        session.console.confirm(&question)?;
    }
    let manner = Manner {
        grace_ms: args.grace.map_or(0, |grace| grace.0),
        pods_per_second: if paced_by_server.is_some() { None } else { args.evictions_per_second },
    };
    let intent = Intent { reason: Some(args.reason.clone()), set_by: whoami(session).await, overwrite: true };
    let mut work = Work {
        rules,
        objects: vec![Value::Null; devices.len()],
        drain: Drain::new(devices.len(), manner, session.now()),
        deadline: args
            .timeout
            .filter(|timeout| timeout.0 > 0)
            .map(|timeout| session.now().plus_millis(timeout.0)),
        pace: args.evictions_per_second.filter(|_| paced_by_server.is_some()),
        wait: args.wait,
        devices,
        intent,
    };
    let mut follow = Follow::start(&session.api, &reads);
    work.go(session, &mut cluster, &mut follow).await
}

/// Each word means devices one by one: a drain moves them one after the other.
async fn devices(
    session: &Session<'_>,
    cluster: &mut Cluster,
    args: &DrainArgs,
) -> Result<Vec<DeviceId>, Error> {
    let known = view::device_ids(cluster);
    let targets = select::targets(session, cluster, &args.devices, &args.filter, args.all).await?;
    let mut devices: Vec<DeviceId> = Vec::new();
    for target in targets {
        match exact(&target) {
            Some(id) => devices.push(id),
            None => devices.extend(known.iter().filter(|id| target.names_match(id)).cloned()),
        }
    }
    devices.sort();
    devices.dedup();
    Ok(devices)
}

/// A drain under way, with what it needs to write.
struct Work {
    rules: Resource,
    devices: Vec<DeviceId>,
    /// The rules as the server has them.
    objects: Vec<Value>,
    drain: Drain,
    intent: Intent,
    pace: Option<u32>,
    deadline: Option<Timestamp>,
    wait: bool,
}

impl Work {
    async fn go(
        &mut self,
        session: &mut Session<'_>,
        cluster: &mut Cluster,
        follow: &mut Follow,
    ) -> Result<Verdict, Error> {
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        // Listened for from here on: it counts from the first time that it is asked for.
        tokio::select! {
            biased;
            _ = &mut stop => return self.stopped(session, cluster).await,
            () = std::future::ready(()) => {}
        }
        let mut lingered = 0;
        loop {
            let now = session.now();
            self.drain.observe(now, &pods_seen(cluster, &self.devices));
            self.tell(session)?;
            while let Some(order) = self.drain.poll_order(now) {
                self.obey(session, cluster, order).await?;
            }
            let replaced = self.drain.unreplaced() == 0 || lingered == LINGER_TICKS_MAX;
            if self.drain.is_done() && replaced || !self.wait && self.drain.wake_at().is_none() {
                return self.finished(session);
            }
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return if self.drain.is_done() { self.finished(session) } else { Err(self.too_late()) };
            }
            tokio::select! {
                news = follow.next() => news?.tell(cluster),
                () = self.pause(now) => lingered += u32::from(self.drain.is_done()),
                _ = &mut stop => return self.stopped(session, cluster).await,
            }
        }
    }

    /// Until the next order, the deadline or the next look at the clock.
    async fn pause(&self, now: Timestamp) {
        let until =
            [self.drain.wake_at(), self.deadline].into_iter().flatten().map(|at| at.millis_since(now).max(0));
        let pause = until.chain([TICK_MS]).min().unwrap_or(TICK_MS);
        tokio::time::sleep(std::time::Duration::from_millis(pause.unsigned_abs())).await;
    }

    fn tell(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        while let Some(event) = self.drain.poll_event() {
            let line = match event {
                DrainEvent::Ends(pod) => format!("pod {pod} is told to leave"),
                DrainEvent::Left { pod, after } => format!("pod {pod} has left after {after}"),
                DrainEvent::Replaced { pod, by, node } => {
                    format!("pod {by} runs on node {node} in place of {pod}")
                }
            };
            session.console.line(&line)?;
        }
        Ok(())
    }

    async fn obey(
        &mut self,
        session: &mut Session<'_>,
        cluster: &Cluster,
        order: Order,
    ) -> Result<(), Error> {
        let (at, effect) = match order {
            Order::Close(at) | Order::Relax(at) => (at, Effect::NoSchedule),
            Order::Empty(at) => (at, Effect::NoExecute),
        };
        let selector = selector_of(&self.devices[at]);
        let name = rule_name(&selector, DRAIN_KEY, None);
        let taint = drain_taint(effect, self.pace);
        let change = if self.objects[at].is_null() {
            view::set(cluster, &selector, name, taint, &self.intent).map_err(Error::Usage)?
        } else {
            let draft = RuleDraft {
                name,
                selector,
                taint,
                reason: self.intent.reason.clone(),
                set_by: self.intent.set_by.clone(),
            };
            // The status of the rule changes all the time: its incarnation is precondition enough, for the rule is ours.
            let mut meta = meta_of(&self.objects[at]);
            meta.resource_version.clear();
            Change::Update { draft, meta }
        };
        let written = write(session, &self.rules, &change, DryRun::None).await?;
        session.console.line(&written.line)?;
        self.objects[at] = written.object.unwrap_or_default();
        Ok(())
    }

    fn finished(&self, session: &mut Session<'_>) -> Result<Verdict, Error> {
        let (devices, left, replaced) = self.drain.tally();
        let mut line = format!("{} out of service, {} left", count(devices, "device"), count(left, "pod"));
        if replaced > 0 {
            line.push_str(&format!(", {replaced} replaced so far"));
        }
        if !self.drain.is_done() {
            line.push_str(&format!(", {} to leave", self.drain.waiting().len()));
        }
        session.console.line(&line)?;
        for pod in self.drain.staying() {
            session.console.line(&format!("pod {pod} tolerates the taint and stays"))?;
        }
        session.console.note(&format!("bring back: kubectl device uncordon {}", self.names()));
        Ok(Verdict::Yes)
    }

    /// Ctrl-C: who is still there may stay, and everybody knows how far it went.
    async fn stopped(&mut self, session: &mut Session<'_>, cluster: &Cluster) -> Result<Verdict, Error> {
        session.console.note("stopping: pods that have not been told to leave may stay");
        for order in self.drain.stop() {
            self.obey(session, cluster, order).await?;
        }
        let (devices, left, _) = self.drain.tally();
        session.console.line(&format!(
            "stopped: {} kept from new pods, {} left, {} still there",
            count(devices, "device"),
            count(left, "pod"),
            count(self.drain.waiting().len(), "pod")
        ))?;
        session.console.note(&format!(
            "go on: repeat the command; bring back: kubectl device uncordon {}",
            self.names()
        ));
        Ok(Verdict::No)
    }

    fn too_late(&self) -> Error {
        let waiting: Vec<String> = self.drain.waiting().iter().map(|pod| format!("  {pod}")).collect();
        Error::TimedOut(format!(
            "not empty in time; the taint stays and goes on to make these pods leave:\n{}\nstop it: kubectl device uncordon {}",
            waiting.join("\n"),
            self.names()
        ))
    }

    fn names(&self) -> String {
        self.devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

pub(super) async fn uncordon(session: &mut Session<'_>, args: Uncordon) -> Result<Verdict, Error> {
    let rules = session.served().await?.rules()?;
    let mut cluster = load(session, Need::default()).await?.cluster;
    let targets = select::targets(session, &mut cluster, &args.devices, &args.filter, args.all).await?;
    let spec = TaintSpec::Remove { key: DRAIN_KEY.to_owned(), value: None, effect: None };
    let changes = changes(&cluster, &targets, &[spec], &Intent::default()).map_err(Error::Usage)?;
    for change in &changes {
        let written = write(session, &rules, change, args.dry_run).await?;
        session.console.line(&written.line)?;
    }
    let removed: Vec<&str> = changes.iter().map(Change::rule).collect();
    for row in targets.iter().filter_map(exact).filter_map(|id| row(&cluster, &id)) {
        for taint in row
            .taints
            .iter()
            .filter(|taint| taint.effect != "None" && !removed.contains(&taint.origin_name.as_str()))
        {
            session.console.note(&format!(
                "{} is still tainted {} by {}",
                row.name,
                taint.taint(),
                taint.by()
            ));
        }
    }
    Ok(Verdict::Yes)
}
