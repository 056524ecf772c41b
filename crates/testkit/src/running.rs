//! Scheduler, controllers and simulated nodes of a cluster.

use lazaret_runtime::{Client, Metrics, Tasks};
use lazaret_server::{Server, User};
use tokio::sync::watch;

use crate::{Plane, StartError, host::Host};

/// What runs beside the API server. Dropping it is a crash: nothing is let end.
#[derive(Debug)]
pub(crate) struct Running {
    _plane: lazaret_controllers::Plane,
    _hollow: Tasks,
    _stop: watch::Sender<bool>,
}

impl Running {
    pub(crate) fn start(host: &Host, server: &Server, plane: &Plane) -> Result<Self, StartError> {
        let user =
            User { name: "system:lazaret".into(), groups: vec!["system:masters".into()], ..User::default() };
        host.wait(async move {
            let client = Client::direct(server.answering(user));
            let metrics = Metrics::default();
            let shown = metrics.clone();
            server.show_metrics(move || shown.text());
            let options = plane.options.clone().with_features(|gate| server.features().is_on(gate));
            let running = lazaret_controllers::Plane::start(client, metrics, &options)
                .await
                .map_err(|error| StartError::Plane(error.to_string()))?;
            let (stop, stopped) = watch::channel(false);
            let hollow = lazaret_hollow::start(running.hub(), plane.hollow.clone(), &stopped)
                .map_err(|error| StartError::Plane(error.to_string()))?;
            Ok(Self { _plane: running, _hollow: hollow, _stop: stop })
        })
    }
}
