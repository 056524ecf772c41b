//! Views that health controllers want before something begins on a device: rules, claims and pods as the server has them then.

use lazaret_leader::Action;
use lazaret_lifecycle::{Notice, ViewKind};
use lazaret_model::Timestamp;

use crate::{api::Kind, view::log_length, world::World};

fn kind(kind: &ViewKind) -> Kind {
    match kind {
        ViewKind::Rules => Kind::Rule,
        ViewKind::Claims => Kind::Claim,
        ViewKind::Pods => Kind::Pod,
    }
}

impl World {
    /// Brings about the view that the machine of a controller wants, by the watches of its process.
    pub(super) fn catch_up_health(&mut self, number: usize, now: Timestamp) {
        self.health.agents[number].view_at = None;
        loop {
            let agent = &mut self.health.agents[number];
            if agent.turn.may_wish()
                && let Some(view) = agent.core.poll_view()
            {
                agent.turn.wish(view.number, view.kinds.iter().map(kind).collect());
            }
            let view = &self.clients[number].view;
            let turn = &mut self.health.agents[number].turn;
            let mut demand = turn.catch_up(now, |kind| Some(view.position(*kind) as u64));
            if demand == Action::Hear {
                demand = turn.grant();
            }
            match demand {
                Action::Ask(question, kinds) => {
                    let far = |kind: Kind| (kind, log_length(&self.api, kind) as u64);
                    let goal = kinds.unwrap_or_default().into_iter().map(far).collect();
                    self.health.agents[number].turn.answered(now, question, goal);
                }
                Action::Granted(view) => {
                    self.hear_news(number);
                    self.hear_children(number, now);
                    self.hear_usage(number, now);
                    let core = &mut self.health.agents[number].core;
                    core.handle(now, Notice::ViewReached(view));
                    core.handle(now, Notice::Tick);
                }
                Action::Watch(_) => {}
                Action::List(lagging) => lagging.into_iter().for_each(|kind| self.relist(number, kind)),
                Action::Wait(at) => {
                    self.health.agents[number].view_at = at;
                    return;
                }
                Action::Hear | Action::Lead(_) => return,
            }
        }
    }
}
