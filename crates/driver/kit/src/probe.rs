//! Whether a driver answers, asked as kubelet would.

use std::{io, time::Duration};

use thiserror::Error;

use crate::{
    KubeletService, Sockets,
    grpc::Client,
    proto::{self, ClaimsRequest, InfoRequest, PluginInfo, PrepareResponse},
};

/// For each of the two questions.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a driver is not well.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The socket does not accept connections.
    #[error("connect: {0}")]
    Connect(#[from] io::Error),
    /// It answered with an error.
    #[error("{call}: {status}")]
    Call {
        /// The method.
        call: &'static str,
        /// The error.
        status: Box<tonic::Status>,
    },
    /// It did not answer.
    #[error("{0}: no answer")]
    Silent(&'static str),
    /// Another driver answered.
    #[error("driver {found} answered instead of {wanted}")]
    Another {
        /// The driver that should answer.
        wanted: String,
        /// The driver that answered.
        found: String,
    },
}

/// Asks who is there, and for a preparation of nothing. For a liveness probe.
///
/// # Errors
/// When it does not answer, or another driver does.
pub async fn probe(driver: &str, sockets: &Sockets) -> Result<(), ProbeError> {
    let info: PluginInfo = ask(&sockets.registration, proto::GET_INFO, InfoRequest {}).await?;
    if info.name != driver {
        return Err(ProbeError::Another { wanted: driver.to_owned(), found: info.name });
    }
    let has_v1 = info.supported_versions.iter().any(|name| name == KubeletService::PluginV1.name());
    let call = if has_v1 { proto::PREPARE_V1 } else { proto::PREPARE_V1BETA1 };
    let _: PrepareResponse = ask(&sockets.service, call, ClaimsRequest::default()).await?;
    Ok(())
}

async fn ask<M, R>(socket: &std::path::Path, call: &'static str, message: M) -> Result<R, ProbeError>
where
    M: prost::Message + Default + 'static,
    R: prost::Message + Default + 'static,
{
    let asked = async {
        let mut client = Client::connect(socket).await?;
        let answer = client.call(call, message).await;
        answer.map_err(|status| ProbeError::Call { call, status: Box::new(status) })
    };
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or(Err(ProbeError::Silent(call)))
}
