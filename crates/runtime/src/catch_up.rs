//! A view that an agent wants while it leads: of some resources, at least as new as the moment it asked.

use lazaret_model::Timestamp;
use tracing::warn;

use crate::{
    Inbox, ViewWish,
    fence::{Fence, FenceStep},
    hub::Hurry,
    turn::{Answer, Asking, answered},
};

/// On the way to such a view.
pub(crate) struct CatchUp {
    wish: ViewWish,
    fence: Fence,
    asking: Option<Asking>,
}

impl CatchUp {
    pub(crate) fn new(wish: ViewWish) -> Self {
        Self { wish, fence: Fence::patient(), asking: None }
    }

    /// To grant the wish by.
    pub(crate) fn number(&self) -> u64 {
        self.wish.number
    }

    /// The answer to what was asked; never, if nothing was.
    pub(crate) async fn answered(this: &mut Option<Self>) -> Answer {
        match this {
            Some(this) => answered(&mut this.asking).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn take_answer(&mut self, now: Timestamp, answer: Answer, controller: &'static str) {
        match answer {
            Ok(goal) => self.fence.answered(now, goal),
            Err(error) => {
                warn!(controller, %error, "cannot ask how far the server is; trying again");
                self.fence.unanswered(now);
            }
        }
    }

    /// Does what is next. [`FenceStep::Wait`] and [`FenceStep::Reached`] are left to the caller.
    pub(crate) fn step(&mut self, now: Timestamp, inbox: &Inbox) -> Option<FenceStep> {
        match self.fence.next(now, |resource| inbox.reached(resource)) {
            FenceStep::Ask => self.asking = Some(Box::pin(inbox.ask_how_far(&self.wish.resources))),
            FenceStep::Watch(lagging) => inbox.hurry(&lagging, Hurry::Watch),
            FenceStep::List(lagging) => inbox.hurry(&lagging, Hurry::List),
            step @ (FenceStep::Wait(_) | FenceStep::Reached) => return Some(step),
        }
        None
    }
}
