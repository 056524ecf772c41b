//! Scheduler, controllers and simulated nodes of a cluster.

use std::sync::Arc;

use lazaret_runtime::{Client, Metrics, Tasks};
use lazaret_server::{Server, controller_user, node_user};
use tokio::sync::watch;

use crate::{Plane, StartError, host::Host};

/// The parts beside the API server. Dropping it is a crash: nothing is stopped in order.
#[derive(Debug)]
pub(crate) struct Running {
    _plane: lazaret_controllers::Plane,
    _hollow: Tasks,
    _stop: watch::Sender<bool>,
}

impl Running {
    pub(crate) fn start(host: &Host, server: &Server, plane: &Plane) -> Result<Self, StartError> {
        host.wait(async move {
            let own = server.clone();
            let client = Client::direct(server.answering(controller_user("")))
                .with_identities(move |name| Client::direct(own.answering(controller_user(name))))
                .with_clock(plane.clock.clone());
            let metrics = Metrics::default();
            let shown = metrics.clone();
            server.show_metrics(move || shown.text());
            let health = metrics.health().clone();
            server.show_checks(move || health.checks());
            let options = plane.options.clone().with_features(|gate| server.features().is_on(gate));
            let running = lazaret_controllers::Plane::start(client, metrics, &options)
                .await
                .map_err(|error| StartError::Plane(error.to_string()))?;
            let (stop, stopped) = watch::channel(false);
            let of_nodes = server.clone();
            let clients = Arc::new(move |name: &str| Client::direct(of_nodes.answering(node_user(name))));
            let hollow = lazaret_hollow::start_with(running.hub(), plane.hollow.clone(), &stopped, clients)
                .map_err(|error| StartError::Plane(error.to_string()))?;
            Ok(Self { _plane: running, _hollow: hollow, _stop: stop })
        })
    }
}
