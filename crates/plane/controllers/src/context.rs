//! The context of one part's agents: every client is under the part's lease, every event goes through its postbox.

use std::{fmt::Debug, sync::Arc};

use lazaret_runtime::{
    Agent, AgentOptions, CallError, Hub, Inbox, Leadership, Metrics, News, Object, Perform, Resource, Tasks,
    run,
};
use tokio::sync::watch;
use tracing::warn;

use crate::{effect_log::Logged, event::Events, writer::Writer};

/// Effects of one agent in flight at once where the server is elsewhere. Each has a connection with buffers of its own, and a server that answers
/// within 10 ms carries out 6,400 of them a second.
const REMOTE_IN_FLIGHT_MAX: usize = 64;

/// Hub, lease, events and stop signal that the agents of one part share. No agent gets a client that writes without the lease.
#[derive(Clone, Debug)]
pub(crate) struct PartContext {
    hub: Arc<Hub>,
    leadership: Leadership,
    events: Events,
    stop: watch::Receiver<bool>,
}

impl PartContext {
    /// Spawns a task that sends the events until the last clone of the context is dropped.
    pub(crate) fn new(
        hub: Arc<Hub>,
        leadership: Leadership,
        stop: watch::Receiver<bool>,
        tasks: &mut Tasks,
    ) -> Self {
        let (postbox, postman) = hub.postbox();
        tasks.spawn("postbox", hub.metrics(), postman.run());
        let events = Events::new(postbox, hub.client().clock().clone());
        Self { hub, leadership, events, stop }
    }

    /// Writes while this part leads, by the rights of the controller of this name, and posts events through the part's postbox, so that nothing
    /// waits for them.
    pub(crate) fn writer(&self, controller: &str) -> Writer {
        let client = self.hub.client().of_controller(controller);
        Writer::new(client.under(&self.leadership), self.events.clone())
    }

    /// Waits until there is an object of these resources, of which nothing is kept in memory. `kind` is their name for people.
    pub(crate) async fn first_object(&self, resources: &[Resource], kind: &str) {
        self.first_news(resources, kind, |objects| std::future::ready(!objects.is_empty())).await;
    }

    /// The same with another answer to whether a list is worth waking for.
    pub(crate) async fn first_news<F: Future<Output = bool>>(
        &self,
        resources: &[Resource],
        kind: &str,
        is_work: impl Fn(&[Arc<Object>]) -> F,
    ) {
        let mut inbox = self.listen_if_possible(&[], resources);
        loop {
            match inbox.next().await {
                News::Set(..) => return,
                News::Listed(_, objects, _) => {
                    if is_work(&objects).await {
                        return;
                    }
                }
                News::Gone(..) => {}
                News::Barred(_, why) if matches!(*why, CallError::NotFound(_)) => warn!(
                    "there are no {kind} here; to have them: lazaret install --crds-only | kubectl apply -f -"
                ),
                News::Barred(_, why) => {
                    warn!(%why, "{kind} cannot be read; get, list and watch them must be permitted");
                }
            }
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        self.hub.metrics()
    }

    /// Hears of these resources.
    pub(crate) fn listen(&self, resources: &[Resource]) -> Inbox {
        self.hub.listen(resources)
    }

    /// Hears of these resources, and of those that are optional where the server has them.
    pub(crate) fn listen_if_possible(&self, resources: &[Resource], optional: &[Resource]) -> Inbox {
        self.hub.listen_if_possible(resources, optional)
    }

    /// Waits for the stop signal, or until its sender is dropped.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Runs one agent until the stop signal. The watches outlive it: it does not keep them alive in turn.
    pub(crate) fn run<A: Agent<Effect: Debug>, P: Perform<A::Effect>>(
        self,
        options: AgentOptions,
        inbox: Inbox,
        make: impl Fn() -> A + Send + Sync + 'static,
        performer: P,
    ) -> impl Future<Output = ()> + Send {
        let (metrics, leadership, stop) = (self.metrics().clone(), self.leadership, self.stop);
        let options = within(options, leadership.is_rivalled());
        run(make, Logged::new(options.name, performer), inbox, leadership, metrics, options, stop)
    }
}

/// The options of an agent. Only where the server is elsewhere can another process run the same part.
fn within(options: AgentOptions, remote: bool) -> AgentOptions {
    let most = if remote { REMOTE_IN_FLIGHT_MAX } else { usize::MAX };
    AgentOptions { in_flight_max: options.in_flight_max.min(most), ..options }
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::Precedence;

    use super::*;

    #[test]
    fn a_server_elsewhere_gets_fewer_requests_at_once() {
        for (wanted, remote, given) in [(256, false, 256), (256, true, 64), (8, true, 8)] {
            let options = AgentOptions { name: "a", in_flight_max: wanted, precedence: Precedence::Usual };
            assert_eq!(within(options, remote).in_flight_max, given);
        }
    }
}
