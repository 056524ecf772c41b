//! The time of each step, for measurements: events at level `TRACE` with the target [`TARGET`].

use lazaret_node::{Action, Input, Outcome};
use tracing::trace;

/// The target of these events.
pub(crate) const TARGET: &str = "lazaret_agent::steps";

/// Something is about to be handled.
pub(crate) fn log_input(input: &Input) {
    let step = match input {
        Input::Pod(_) | Input::Pods(_) => "pod seen",
        Input::Outcome(_, Outcome::Claims(_)) => "claims read",
        Input::Outcome(_, Outcome::Answered(_)) => "plugin answered",
        Input::Outcome(_, Outcome::Done) => "written",
        Input::Outcome(_, Outcome::Failed(_) | Outcome::Plugin(_))
        | Input::PodGone(_)
        | Input::Node(_)
        | Input::Sockets(_)
        | Input::Connected { .. }
        | Input::Health { .. }
        | Input::HealthEnded { .. } => return,
    };
    trace!(target: TARGET, step);
}

/// Something is about to be done.
pub(crate) fn performs(action: &Action) {
    let step = match action {
        Action::ReadClaims { .. } => "read claims",
        Action::Checkpoint { .. } => "write checkpoint",
        Action::Call { .. } | Action::CallClassic { .. } => "call plugin",
        Action::OfferDevices { .. } => "offer devices",
        Action::AskPlugin { .. }
        | Action::NotifyPlugin { .. }
        | Action::Connect { .. }
        | Action::Disconnect { .. }
        | Action::Wipe { .. }
        | Action::Report(_)
        | Action::ShowStatus { .. }
        | Action::WithdrawDevices { .. }
        | Action::DeletePod(_)
        | Action::Warn { .. }
        | Action::Began { .. }
        | Action::Freed { .. }
        | Action::Ended { .. } => return,
    };
    trace!(target: TARGET, step);
}
