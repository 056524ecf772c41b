//! The parts beside the API server, in the same process and over the same API.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use lazaret_controllers::{Options, Plane};
use lazaret_hollow::HollowOptions;
use lazaret_runtime::{Client, Metrics, Tasks};
use lazaret_server::{Server, controller_user, node_user};
use tokio::sync::watch;

use crate::alerts;

/// Scheduler, controllers, and the simulated nodes if there are any.
#[derive(Debug)]
pub(super) struct Parts {
    plane: Plane,
    hollow: Option<(Tasks, watch::Sender<bool>)>,
}

impl Parts {
    pub(super) async fn start(
        server: Server,
        nodes: usize,
        devices: usize,
        options: Options,
    ) -> Result<Self> {
        let client = controllers_client(&server);
        // The store is locked for this process: there is no other replica to share the work with.
        let metrics = Metrics::default();
        let shown = metrics.clone();
        server.show_metrics(move || shown.text());
        alerts::take(&server, client.of_controller(alerts::CONTROLLER), &metrics);
        let health = metrics.health().clone();
        server.show_checks(move || health.checks());
        let plane = Plane::start(client, metrics, &by_gates(&server, options))
            .await
            .map_err(|error| anyhow!("start the controllers: {error}"))?;
        let hollow = if nodes == 0 {
            None
        } else {
            let (stop, stopped) = watch::channel(false);
            let options = HollowOptions { nodes, devices, ..HollowOptions::default() };
            let clients = Arc::new(move |name: &str| Client::direct(server.answering(node_user(name))));
            let tasks = lazaret_hollow::start_with(plane.hub(), options, &stopped, clients)
                .map_err(|error| anyhow!("start the simulated nodes: --{error}"))?;
            Some((tasks, stop))
        };
        Ok(Self { plane, hollow })
    }

    /// Lets work in flight end.
    pub(super) async fn stop(self) {
        if let Some((tasks, stop)) = self.hollow {
            // Nodes that have ended already have no receiver.
            let _ = stop.send(true);
            tasks.join().await;
        }
        self.plane.stop().await;
    }
}

/// Scheduler and controllers go by the same gates by which the server keeps fields.
fn by_gates(server: &Server, options: Options) -> Options {
    options.with_features(|gate| server.features().is_on(gate))
}

/// A client that reads for all controllers, and gives each of them one that writes with the rights of its own role.
fn controllers_client(server: &Server) -> Client {
    let own = server.clone();
    Client::direct(server.answering(controller_user("")))
        .with_identities(move |name| Client::direct(own.answering(controller_user(name))))
}
