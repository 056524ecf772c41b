//! The service on the registration socket: who this is, and what kubelet made of it.

use std::{path::PathBuf, sync::Arc};

use http::Request;
use hyper::body::Incoming;
use tokio::sync::watch;
use tonic::Status;
use tracing::{info, warn};

use crate::{
    Registration,
    grpc::{self, Answer, Service},
    proto::{self, InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse},
};

/// Answers on the registration socket.
pub(crate) struct Registrar {
    /// [`proto::PLUGIN_TYPE`] or [`proto::CLASSIC_PLUGIN_TYPE`].
    pub(crate) plugin_type: &'static str,
    pub(crate) driver: String,
    pub(crate) endpoint: PathBuf,
    pub(crate) services: Vec<String>,
    pub(crate) status: watch::Sender<Registration>,
}

impl Service for Registrar {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        match request.uri().path() {
            proto::GET_INFO => grpc::unary(request, move |_: InfoRequest| async move {
                Ok(PluginInfo {
                    r#type: self.plugin_type.into(),
                    name: self.driver.clone(),
                    endpoint: self.endpoint.to_string_lossy().into_owned(),
                    supported_versions: self.services.clone(),
                })
            }),
            proto::NOTIFY => {
                grpc::unary(request, move |status: RegistrationStatus| async move { self.notify(status) })
            }
            path => grpc::unimplemented(path),
        }
    }
}

impl Registrar {
    fn notify(&self, status: RegistrationStatus) -> Result<RegistrationStatusResponse, Status> {
        if status.plugin_registered {
            info!(driver = self.driver, "kubelet registered the driver");
            self.status.send_replace(Registration::Registered);
            return Ok(RegistrationStatusResponse {});
        }
        warn!(driver = self.driver, error = status.error, "kubelet refused the driver");
        self.status.send_replace(Registration::Refused(status.error.clone()));
        Err(Status::failed_precondition(format!("registration failed: {}", status.error)))
    }
}
