//! `kubectl device drain`.

use std::{future::Future, pin::Pin, time::Duration};

use lazaret_model::{DeviceId, Effect, Timestamp};
use serde_json::Value;

use super::{
    Session, drain_incidents,
    drain_report::{DrainReport, Outcome},
    follow::Follow,
    load::{Loaded, Need, load},
    plan, select,
    write::{meta_of, whoami, write},
};
use crate::{
    Error, Verdict,
    api::{DryRun, Resource},
    output::{Plain, count, structured},
    taint_args::DrainArgs,
    view::{
        self, Change, Cluster, DRAIN_KEY, Drain, DrainEvent, Intent, Manner, Order, Plan, RuleDraft,
        drain_taint, pods_seen, rule_name, selector_of, waits_of_drain,
    },
};

/// How often a drain looks at the clock while nothing happens.
const TICK_MS: i64 = 1000;
/// How long it looks for pods that run in place of others once the devices are empty.
const LINGER: Duration = Duration::from_secs(30);
/// Between two notes of progress where no line can be written over.
const PROGRESS_NOTE_MS: i64 = 10_000;

pub(super) async fn run(session: &mut Session<'_>, args: DrainArgs) -> Result<Verdict, Error> {
    let served = session.served().await?;
    let rules = session.rules_in_force().await?;
    let Loaded { mut cluster, reads } =
        load(session, Need { pods: true, budgets: true, outlook: true, ..Need::default() }).await?;
    let devices = select::devices(session, &mut cluster, &args.chosen).await?;
    let targets: Vec<_> = devices.iter().map(selector_of).collect();
    let now = session.now();
    let pace = args.evictions_per_second;
    let manner = Manner { grace_ms: args.grace.map_or(0, |grace| grace.0), pace };
    // The drain paces its devices itself. A rule's own pace slows down the pods that share one device.
    let rule_pace = pace.filter(|_| served.has_pace()).map(view::Pace::per_second);
    let mut plan = view::plan(&cluster, now, &targets, &drain_taint(Effect::NoExecute, None));
    let rate = rule_pace.or(plan::default_pace(session).await?);
    let orders = view::planned_drain(&cluster, &devices, manner, now, rate);
    plan.foretell(&cluster, now, &orders);
    if args.output.structured().is_none() {
        let text = plan::text(&plan, now, &*session.console, false);
        session.console.line(&text)?;
    }
    let incidents = drain_incidents::open_incidents(session, &devices).await?;
    for line in drain_incidents::lines(&incidents) {
        session.console.note(&line);
    }
    if args.dry_run != DryRun::None {
        return dry_run(session, &args, &devices, plan);
    }
    if !args.yes {
        let question =
            format!("drain {}, evicting {}?", count(devices.len(), "device"), count(plan.pods.len(), "pod"));
        session.console.confirm(&question)?;
    }
    for line in drain_incidents::acknowledge(session, &incidents, &args.reason).await? {
        session.console.note(&line);
    }
    let set_by = whoami(session).await;
    let intent = Intent {
        reason: Some(args.reason.clone()),
        request: view::request(&targets, true, plan.impact(), set_by.as_deref(), now),
        set_by,
        overwrite: true,
        ..Intent::default()
    };
    let mut work = Work {
        rules,
        objects: vec![Value::Null; devices.len()],
        drain: Drain::new(devices.len(), manner, session.now()),
        deadline: args
            .timeout
            .filter(|timeout| timeout.0 > 0)
            .map(|timeout| session.now().plus_millis(timeout.0)),
        rule_pace,
        expected: plan.estimated_seconds.map(|seconds| now.plus_secs(seconds)),
        wait: args.wait,
        output: args.output,
        noted_at: session.now(),
        devices,
        intent,
        plan,
    };
    let mut follow = Follow::start(&session.api, &reads);
    work.go(session, &mut cluster, &mut follow).await
}

fn dry_run(
    session: &mut Session<'_>,
    args: &DrainArgs,
    devices: &[DeviceId],
    plan: Plan,
) -> Result<Verdict, Error> {
    match args.output.structured() {
        Some(form) => {
            let drain = Drain::new(devices.len(), Manner::default(), session.now());
            let report = DrainReport::new(Outcome::DryRun, devices, &drain, plan);
            structured(session.console, &report, form)?;
        }
        None => session.console.line(&format!("nothing was changed{}", args.dry_run.suffix()))?,
    }
    Ok(Verdict::Yes)
}

/// A drain in progress, with the data that its writes need.
struct Work {
    rules: Resource,
    devices: Vec<DeviceId>,
    /// The rules as the server has them.
    objects: Vec<Value>,
    drain: Drain,
    intent: Intent,
    /// Evictions per second of each rule, where the server knows such a field.
    rule_pace: Option<i64>,
    deadline: Option<Timestamp>,
    /// When the last pod will be gone, as far as the plan can tell.
    expected: Option<Timestamp>,
    wait: bool,
    output: Plain,
    /// When progress was last noted.
    noted_at: Timestamp,
    plan: Plan,
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
        let mut linger: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
        let mut lingered = false;
        loop {
            let now = session.now();
            self.drain.observe(now, &pods_seen(cluster, &self.devices));
            self.tell(session)?;
            while let Some(order) = self.drain.poll_order(now) {
                self.obey(session, cluster, order).await?;
            }
            let unconfirmed = self.unconfirmed(cluster);
            let empty = self.drain.is_done() && unconfirmed == 0;
            let replaced = self.drain.unreplaced() == 0 || lingered;
            if empty && replaced || !self.wait && self.drain.wake_at().is_none() {
                return self.finished(session).await;
            }
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return if empty {
                    self.finished(session).await
                } else {
                    self.too_late(session, cluster, unconfirmed)
                };
            }
            if empty && linger.is_none() {
                linger = Some(Box::pin(tokio::time::sleep(LINGER)));
            }
            self.show_progress(session, cluster, now, unconfirmed);
            let lingering = async {
                match &mut linger {
                    Some(linger) => linger.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = follow.next() => news?.tell(cluster),
                () = self.pause(now) => {}
                () = lingering, if !lingered => lingered = true,
                _ = &mut stop => return self.stopped(session, cluster).await,
            }
        }
    }

    /// Emptied devices whose rules say that they are not drained yet. Rules that say nothing, and devices with pods that stay, do not count.
    fn unconfirmed(&self, cluster: &Cluster) -> usize {
        let not_yet = |(at, device): (usize, &DeviceId)| {
            let name = rule_name(&selector_of(device), DRAIN_KEY, None);
            !self.drain.is_kept(at) && cluster.drained.get(&name) == Some(&Some(false))
        };
        self.devices.iter().enumerate().filter(|entry| not_yet(*entry)).count()
    }

    /// Until the next order, the deadline or the next look at the clock.
    async fn pause(&self, now: Timestamp) {
        let until =
            [self.drain.wake_at(), self.deadline].into_iter().flatten().map(|at| at.millis_since(now).max(0));
        let pause = until.chain([TICK_MS]).min().unwrap_or(TICK_MS);
        tokio::time::sleep(Duration::from_millis(pause.unsigned_abs())).await;
    }

    /// A line that is written over on a terminal, a note now and then elsewhere.
    fn show_progress(
        &mut self,
        session: &mut Session<'_>,
        cluster: &Cluster,
        now: Timestamp,
        unconfirmed: usize,
    ) {
        let live = session.console.is_live();
        if !live && now.millis_since(self.noted_at) < PROGRESS_NOTE_MS {
            return;
        }
        self.noted_at = now;
        let text =
            self.drain.progress(now, unconfirmed, &waits_of_drain(cluster, &self.devices), self.expected);
        if live { session.console.progress(&text) } else { session.console.note(&text) }
    }

    /// A line for people: output, or a note where the output is for a program.
    fn say(&self, session: &mut Session<'_>, line: &str) -> Result<(), Error> {
        match self.output.structured() {
            None => session.console.line(line),
            Some(_) => {
                session.console.note(line);
                Ok(())
            }
        }
    }

    fn tell(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        while let Some(event) = self.drain.poll_event() {
            let line = match event {
                DrainEvent::Ends(pod) => format!("pod {pod} terminating"),
                DrainEvent::Left { pod, after } => format!("pod {pod} gone after {after}"),
                DrainEvent::Replaced { pod, by, node } => {
                    format!("pod {pod} replaced by {by} on node {node}")
                }
            };
            self.say(session, &line)?;
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
        let taint = drain_taint(effect, self.rule_pace);
        let change = if self.objects[at].is_null() {
            view::set(cluster, &selector, name, taint, &self.intent).map_err(Error::Usage)?
        } else {
            let draft = RuleDraft {
                name,
                selector,
                taint,
                reason: self.intent.reason.clone(),
                set_by: self.intent.set_by.clone(),
                request: self.intent.request.clone(),
            };
            // The status of the rule changes all the time: its incarnation is precondition enough, for the rule is ours.
            let mut meta = meta_of(&self.objects[at]);
            meta.resource_version.clear();
            Change::Update { draft, meta }
        };
        let written = write(session, &self.rules, &change, DryRun::None).await?;
        self.say(session, &written.line)?;
        self.objects[at] = written.object.unwrap_or_default();
        Ok(())
    }

    /// How far incidents of the devices are by now.
    async fn incidents(&self, session: &Session<'_>) -> Vec<String> {
        match drain_incidents::open_incidents(session, &self.devices).await {
            Ok(incidents) => drain_incidents::lines(&incidents),
            Err(error) => vec![format!("incidents cannot be read: {error}")],
        }
    }

    fn report(&self, outcome: Outcome) -> DrainReport {
        DrainReport::new(outcome, &self.devices, &self.drain, self.plan.clone())
    }

    /// The devices are empty, or nobody waits for it. Pods that nothing runs in place of yet are the answer no.
    async fn finished(&self, session: &mut Session<'_>) -> Result<Verdict, Error> {
        let outcome = if self.drain.is_done() { Outcome::Drained } else { Outcome::Draining };
        let mut report = self.report(outcome);
        report.incidents = self.incidents(session).await;
        match self.output.structured() {
            Some(form) => structured(session.console, &report, form)?,
            None => session.console.print(&report.text())?,
        }
        session.console.note(&format!("undo: kubectl device uncordon {}", self.names()));
        Ok(if report.pending.is_empty() { Verdict::Yes } else { Verdict::No })
    }

    /// Ctrl-C: pods that are still there may stay, and how far it went is said.
    async fn stopped(&mut self, session: &mut Session<'_>, cluster: &Cluster) -> Result<Verdict, Error> {
        session.console.note("stopping: pods that are not terminating yet may stay");
        for order in self.drain.stop() {
            self.obey(session, cluster, order).await?;
        }
        let report = self.report(Outcome::Stopped);
        match self.output.structured() {
            Some(form) => structured(session.console, &report, form)?,
            None => session.console.print(&report.text())?,
        }
        session.console.note(&format!(
            "to continue, repeat the command; undo: kubectl device uncordon {}",
            self.names()
        ));
        Ok(Verdict::No)
    }

    fn too_late(
        &self,
        session: &mut Session<'_>,
        cluster: &Cluster,
        unconfirmed: usize,
    ) -> Result<Verdict, Error> {
        if let Some(form) = self.output.structured() {
            structured(session.console, &self.report(Outcome::TimedOut), form)?;
        }
        let waiting: Vec<String> = self.drain.waiting().iter().map(|pod| format!("  {pod}")).collect();
        let what = if waiting.is_empty() {
            format!("pods are gone, but {} not reported Drained", count(unconfirmed, "device"))
        } else {
            let kept = waits_of_drain(cluster, &self.devices).into_iter().map(|line| format!("  {line}"));
            let lines: Vec<String> = waiting.into_iter().chain(kept).collect();
            format!("these pods are still there, and the taint stays:\n{}", lines.join("\n"))
        };
        Err(Error::TimedOut(format!("timed out: {what}\nundo: kubectl device uncordon {}", self.names())))
    }

    fn names(&self) -> String {
        self.devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}
