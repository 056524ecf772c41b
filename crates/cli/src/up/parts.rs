//! What runs beside the API server, in the same process and over the same API.

use anyhow::{Result, anyhow};
use lazaret_controllers::{Options, Plane};
use lazaret_runtime::{Client, Metrics};
use lazaret_server::{Server, User};

/// Scheduler and controllers.
#[derive(Debug)]
pub(super) struct Parts {
    plane: Plane,
}

impl Parts {
    pub(super) async fn start(server: &Server) -> Result<Self> {
        let client = Client::new(server.client(ourselves()));
        // The store is locked for this process: there is nobody to share the work with.
        let plane = Plane::start(client, Metrics::default(), &Options::default())
            .await
            .map_err(|error| anyhow!("start the controllers: {error}"))?;
        Ok(Self { plane })
    }

    /// Lets what is under way end.
    pub(super) async fn stop(self) {
        self.plane.stop().await;
    }
}

fn ourselves() -> User {
    User { name: "system:lazaret".into(), groups: vec!["system:masters".into()], ..User::default() }
}
