//! Following the cards: events at once, figures every few seconds, and what people ask.

use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lazaret_driver::write_file;
use lazaret_nvml::{Card, Error, Events, Nvml};
use tokio::sync::Notify;
use tracing::{debug, error, info, warn};

use crate::{
    clock::Clock,
    inventory::Gpu,
    kernel_log,
    notices::Notices,
    prepare::Cards,
    requests::{self, Answer, Request},
    signals::Signals,
};

/// Between two looks at what people ask, and at whether the driver is to stop.
const WAIT: Duration = Duration::from_millis(500);
/// Between two tries to load NVML.
const RETRY: Duration = Duration::from_secs(2);
/// Events that are taken at once. A card that reports thousands in a second is looked at, and written about, once for as many.
const EVENTS_MAX: usize = 1_024;
/// How long a count alone, of a condition that is known, need not be in the file.
const KEEP_EVERY_MS: i64 = 5_000;

/// The health of the cards, and the tasks that wait for changes.
#[derive(Debug)]
pub(crate) struct Health {
    signals: Mutex<SavedSignals>,
    pub(crate) changed: Notify,
    /// GPUs answered that did not before.
    pub(crate) found: Notify,
    /// Events about new conditions.
    notices: Notices,
    /// Where it outlives this process.
    file: PathBuf,
    clock: Clock,
    stopping: AtomicBool,
}

/// The signals, and how much of them is in the file.
#[derive(Debug)]
struct SavedSignals {
    signals: Signals,
    kept_ms: i64,
    /// Counts are newer here than in the file.
    is_unkept: bool,
}

impl Health {
    pub(crate) fn new(signals: Signals, file: PathBuf, notices: Notices) -> Self {
        let changed = Notify::new();
        // The first report waits for nothing: what an earlier process kept is known.
        changed.notify_one();
        Self {
            signals: Mutex::new(SavedSignals { signals, kept_ms: 0, is_unkept: false }),
            changed,
            found: Notify::new(),
            notices,
            file,
            clock: Clock::start(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn signals(&self) -> Signals {
        self.lock().signals.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SavedSignals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Changes what is known; if anything is different afterwards, keeps it and says so. Of a condition that happens again and
    /// again, only the count is: that is kept from time to time.
    fn change<T>(&self, act: impl FnOnce(&mut Signals, i64) -> T) -> T {
        let mut followed = self.lock();
        let (before, now) = (followed.signals.clone(), self.clock.now_ms());
        let result = act(&mut followed.signals, now);
        let is_news = !followed.signals.is_same_report(&before);
        followed.is_unkept |= followed.signals != before;
        let is_due = now.saturating_sub(followed.kept_ms) >= KEEP_EVERY_MS;
        if is_news || (followed.is_unkept && is_due) {
            if let Err(error) = write_file(&self.file, &followed.signals) {
                error!(%error, "health is not kept: it would be forgotten by a restart");
            }
            (followed.kept_ms, followed.is_unkept) = (now, false);
        }
        if is_news {
            for (place, name, signal) in followed.signals.news(&before) {
                self.notices.send(place, name, signal);
            }
            self.changed.notify_one();
        }
        result
    }
}

/// Follows the cards until the driver stops. Blocks: for a thread of its own.
pub(crate) fn follow(cards: &Cards, health: &Health, data: &std::path::Path, poll: Duration) {
    while !health.is_stopping() {
        // While no card is open: a card that this process has open cannot be reset.
        answer_requests(cards, health, data);
        match Watch::open(cards) {
            Ok(watch) => {
                if let Err(error) = watch.follow(cards, health, data, poll) {
                    warn!(%error, "NVML is loaded anew");
                }
            }
            Err(why) => {
                health.change(|signals, now| {
                    for gpu in cards.gpus().iter() {
                        signals.unmonitored(now, &gpu.facts.uuid, &why);
                    }
                });
                std::thread::sleep(RETRY);
            }
        }
    }
}

/// One load of NVML.
struct Watch {
    events: Events,
    open: Vec<(Gpu, Option<Card>)>,
}

impl Watch {
    fn open(cards: &Cards) -> Result<Self, String> {
        let nvml = Nvml::load(cards.library.as_deref()).map_err(|error| error.to_string())?;
        let events = nvml.events().map_err(|error| error.to_string())?;
        let found: Vec<Card> =
            nvml.cards().map_err(|error| error.to_string())?.into_iter().flatten().collect();
        let gpus = cards.gpus();
        let open = gpus.iter().map(|gpu| {
            let card =
                found.iter().find(|card| card.uuid().is_ok_and(|uuid| uuid == gpu.facts.uuid)).cloned();
            if let Some(card) = &card
                && let Err(error) = events.add(card)
            {
                warn!(gpu = %gpu.name(), %error, "no events of this GPU: it is looked at every few seconds");
            }
            (gpu.clone(), card)
        });
        Ok(Self { open: open.collect(), events })
    }

    /// Until NVML must be loaded anew, or a person asks for something.
    fn follow(
        &self,
        cards: &Cards,
        health: &Health,
        data: &std::path::Path,
        poll: Duration,
    ) -> Result<(), Error> {
        let mut since_look = poll;
        while !health.is_stopping() {
            if since_look >= poll {
                self.look(health)?;
                since_look = Duration::ZERO;
                // Now that they were looked at.
                if cards.take_late_cards() {
                    health.changed.notify_one();
                    health.found.notify_one();
                }
                if self.open.iter().any(|(_, card)| card.is_none()) && self.has_returned(cards) {
                    info!("a GPU is back");
                    return Ok(());
                }
                match cards.find_more() {
                    Ok(false) => {}
                    // Their events are followed from the next load on.
                    Ok(true) => return Ok(()),
                    Err(failure) => debug!(%failure, "look for GPUs that did not answer"),
                }
            }
            if !requests::waiting(data).is_empty() {
                return Ok(());
            }
            let wait = WAIT.min(poll);
            match self.events.wait(wait) {
                Ok(Some(event)) => {
                    self.take(health, &self.gather(event));
                    // Figures that an event is about are read at once.
                    since_look = poll;
                }
                Ok(None) => since_look += wait,
                // Which card it was is seen by looking at them.
                Err(error) if error.is_lost() => {
                    self.look(health)?;
                    std::thread::sleep(wait);
                    since_look = Duration::ZERO;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// This event and those that wait behind it.
    fn gather(&self, first: lazaret_nvml::Event) -> Vec<lazaret_nvml::Event> {
        let mut events = vec![first];
        while events.len() < EVENTS_MAX {
            // The next wait meets the error again.
            let Ok(Some(event)) = self.events.wait(Duration::ZERO) else { break };
            events.push(event);
        }
        events
    }

    fn take(&self, health: &Health, events: &[lazaret_nvml::Event]) {
        // Thousands of events are of a few kinds.
        let mut kinds: Vec<(&lazaret_nvml::Event, usize)> = Vec::new();
        for event in events {
            match kinds.iter_mut().find(|(known, _)| *known == event) {
                Some((_, count)) => *count += 1,
                None => kinds.push((event, 1)),
            }
        }
        health.change(|signals, now| {
            for (event, count) in kinds {
                self.take_one(signals, now, event, count);
            }
        });
    }

    fn take_one(&self, signals: &mut Signals, now: i64, event: &lazaret_nvml::Event, count: usize) {
        for (gpu, card) in &self.open {
            // An event whose card is not named may concern any of them.
            if event.uuid.as_ref().is_none_or(|uuid| *uuid == gpu.facts.uuid) {
                let partition = partition(gpu, card.as_ref(), event);
                warn!(gpu = %gpu.name(), partition, event = ?event.kind, count, "reported by NVML");
                for _ in 0..count {
                    signals.event(now, &gpu.facts.uuid, partition.as_deref(), event.kind);
                }
            }
        }
    }

    fn look(&self, health: &Health) -> Result<(), Error> {
        for (gpu, card) in &self.open {
            let uuid = &gpu.facts.uuid;
            match card.as_ref().map(Card::readings) {
                Some(Ok(readings)) => health.change(|signals, now| signals.readings(now, uuid, &readings)),
                Some(Err(error)) if error.is_stale() => return Err(error),
                Some(Err(error)) => health.change(|signals, now| signals.lost(now, uuid, &error.to_string())),
                None => health.change(|signals, now| signals.lost(now, uuid, "NVML does not list the GPU")),
            }
        }
        Ok(())
    }

    fn has_returned(&self, cards: &Cards) -> bool {
        let missing = self.open.iter().filter(|(_, card)| card.is_none());
        missing.into_iter().any(|(gpu, _)| cards.card(&gpu.facts.uuid).is_ok())
    }
}

/// The device in which an event happened, if it is a partition that is known.
fn partition(gpu: &Gpu, card: Option<&Card>, event: &lazaret_nvml::Event) -> Option<String> {
    let instance = event.gpu_instance?;
    let there = card?.partitions().ok()?;
    gpu.device_of(instance, event.compute_instance, &there)
}

fn answer_requests(cards: &Cards, health: &Health, data: &std::path::Path) {
    for (path, request) in requests::waiting(data) {
        let answer = match request {
            Ok(request) => answer_one(cards, health, &request),
            Err(why) => Answer { done: false, message: why },
        };
        info!(done = answer.done, message = %answer.message, "a person asked");
        requests::answer(&path, &answer);
    }
}

fn answer_one(cards: &Cards, health: &Health, request: &Request) -> Answer {
    let meant = |gpu: &&Gpu| gpu.name() == request.gpu || gpu.facts.uuid == request.gpu;
    let gpus = cards.gpus();
    let Some(gpu) = gpus.iter().find(meant) else {
        let names: Vec<String> = gpus.iter().map(Gpu::name).collect();
        let message = format!("there is no GPU {:?}; there are {}", request.gpu, names.join(", "));
        return Answer { done: false, message };
    };
    let uuid = &gpu.facts.uuid;
    if !request.reset {
        let condition = request.condition.as_deref();
        let cleared = health.change(|signals, _| signals.acknowledge(uuid, condition));
        return Answer {
            done: cleared > 0,
            message: format!("{cleared} conditions of {} are over", gpu.name()),
        };
    }
    match cards.reset(gpu) {
        Ok(message) => {
            health.change(|signals, _| signals.reset(uuid));
            Answer { done: true, message }
        }
        Err(message) => Answer { done: false, message },
    }
}

/// Reads the kernel log from now on, for the processes that XIDs name. Ends with the process.
pub(crate) fn read_kernel_log(cards: &Arc<Cards>, health: &Arc<Health>) {
    let log = File::open("/dev/kmsg").and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
    let log = match log {
        Ok(log) => log,
        Err(error) => {
            warn!(%error, "/dev/kmsg cannot be read: XIDs are reported without their processes");
            return;
        }
    };
    let mut lines = BufReader::new(log);
    let mut line = Vec::new();
    while !health.is_stopping() {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => std::thread::sleep(WAIT),
            // Lines were overwritten before they were read.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => {
                warn!(%error, "/dev/kmsg is not read any more");
                return;
            }
            Ok(_) => attribute_to_process(cards, health, &String::from_utf8_lossy(&line)),
        }
    }
}

fn attribute_to_process(cards: &Cards, health: &Health, line: &str) {
    let Some(read) = kernel_log::read(line) else { return };
    let Some(process) = read.process else { return };
    let meant = |gpu: &&Gpu| gpu.facts.pci_address.starts_with(&read.pci);
    let gpus = cards.gpus();
    let Some(gpu) = gpus.iter().find(meant) else { return };
    warn!(gpu = %gpu.name(), xid = read.xid, pid = process.pid, process = %process.name, "named by the kernel");
    health.change(|signals, now| signals.attribute_to_process(now, &gpu.facts.uuid, read.xid, process));
}
