//! The machines under test, each in a process of its own with its own watches.

use std::sync::Arc;

use lazaret_classic::{
    ClaimController, ClaimEffectKind, ClaimInput, DriverController, DriverEffectKind, DriverInput,
    DriverOptions, NegotiationEffectKind, NegotiationInput, NegotiationOptions, Negotiator, News,
};
use lazaret_machine::{EffectId, Machine, Turn};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::server::KINDS;

pub(crate) enum Core {
    Claims(Box<ClaimController>),
    Scheduler(Box<Negotiator>),
    /// With the number of its vendor.
    Driver(usize, Box<DriverController>),
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Claims(ClaimEffectKind),
    Scheduler(NegotiationEffectKind),
    Driver(DriverEffectKind),
}

pub(crate) struct Process {
    pub(crate) core: Core,
    /// How much of each kind's log it has heard.
    pub(crate) heard: [usize; KINDS],
}

impl Core {
    pub(crate) fn scheduler() -> Self {
        Self::Scheduler(Box::new(Negotiator::new(NegotiationOptions::default())))
    }

    pub(crate) fn driver(number: usize, name: &Text) -> Self {
        let options = DriverOptions { in_flight_max: 4, ..DriverOptions::new(name.clone()) };
        Self::Driver(number, Box::new(DriverController::new(options)))
    }

    /// The same machine as after a restart.
    pub(crate) fn fresh(&self, name: &Text) -> Self {
        match self {
            Self::Claims(_) => Self::Claims(Box::default()),
            Self::Scheduler(_) => Self::scheduler(),
            Self::Driver(number, _) => Self::driver(*number, name),
        }
    }

    pub(crate) fn tell(&mut self, now: Timestamp, news: News) {
        match self {
            Self::Claims(core) => core.handle(now, &(), ClaimInput::News(news)),
            Self::Scheduler(core) => core.handle(now, &(), NegotiationInput::News(news)),
            Self::Driver(_, core) => core.handle(now, &(), DriverInput::News(news)),
        }
    }

    pub(crate) fn turn(&mut self, now: Timestamp, turn: Turn) {
        match self {
            Self::Claims(core) => core.handle(now, &(), turn.into()),
            Self::Scheduler(core) => core.handle(now, &(), turn.into()),
            Self::Driver(_, core) => core.handle(now, &(), turn.into()),
        }
    }

    pub(crate) fn candidates(
        &mut self,
        now: Timestamp,
        pod: &ObjectKey,
        uid: &Uid,
        nodes: Option<Arc<[Text]>>,
    ) {
        if let Self::Scheduler(core) = self {
            let input = NegotiationInput::Candidates { pod: pod.clone(), uid: uid.clone(), nodes };
            core.handle(now, &(), input);
        }
    }

    pub(crate) fn driver_answer(&mut self, now: Timestamp, input: DriverInput) {
        if let Self::Driver(_, core) = self {
            core.handle(now, &(), input);
        }
    }

    pub(crate) fn poll(&mut self) -> Option<(EffectId, Request)> {
        match self {
            Self::Claims(core) => core.poll_effect().map(|effect| (effect.id, Request::Claims(effect.kind))),
            Self::Scheduler(core) => {
                core.poll_effect().map(|effect| (effect.id, Request::Scheduler(effect.kind)))
            }
            Self::Driver(_, core) => {
                core.poll_effect().map(|effect| (effect.id, Request::Driver(effect.kind)))
            }
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        match self {
            Self::Claims(core) => core.next_wake().map(|wake| wake.at),
            Self::Scheduler(core) => core.next_wake().map(|wake| wake.at),
            Self::Driver(_, core) => core.next_wake().map(|wake| wake.at),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Claims(_) => "claims",
            Self::Scheduler(_) => "scheduler",
            Self::Driver(0, _) => "driver-0",
            Self::Driver(..) => "driver-1",
        }
    }
}
