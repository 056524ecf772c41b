//! The connection to the runtime, made again when it broke.

use std::{error::Error as _, path::PathBuf, time::Duration};

use lazaret_containers::RuntimeError;
use lazaret_driver::Client;
use prost::Message;
use tokio::{sync::Mutex, time::timeout};
use tonic::{Code, Status};

/// How long the runtime may take to accept a connection.
const CONNECT_SECONDS_MAX: u64 = 10;

/// A socket, and the connection to it while there is one.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: PathBuf,
    client: Mutex<Option<Client>>,
}

impl Connection {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, client: Mutex::default() }
    }

    /// Calls, and waits for the answer no longer than `limit`.
    pub(crate) async fn call<M, R>(
        &self,
        path: &'static str,
        message: M,
        limit: Duration,
    ) -> Result<R, RuntimeError>
    where
        M: Message + Default + 'static,
        R: Message + Default + 'static,
    {
        let mut client = self.client().await?;
        match timeout(limit, client.call(path, message)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => {
                // An answer of the runtime has no source, a connection that broke has: the runtime was restarted.
                if status.code() == Code::Unavailable || status.source().is_some() {
                    *self.client.lock().await = None;
                }
                Err(failure(path, &status))
            }
            Err(_) => Err(RuntimeError::Failed(format!("{} did not answer within {limit:?}", short(path)))),
        }
    }

    async fn client(&self) -> Result<Client, RuntimeError> {
        let mut held = self.client.lock().await;
        if let Some(client) = &*held {
            return Ok(client.clone());
        }
        let place = || self.socket.display();
        let client = timeout(Duration::from_secs(CONNECT_SECONDS_MAX), Client::connect(&self.socket))
            .await
            .map_err(|_| {
                RuntimeError::Failed(format!("the runtime at {} did not accept a connection", place()))
            })?
            .map_err(|error| {
                RuntimeError::Failed(format!("connect to the runtime at {}: {error}", place()))
            })?;
        *held = Some(client.clone());
        Ok(client)
    }
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn failure(path: &str, status: &Status) -> RuntimeError {
    let text = format!("{}: {}", short(path), status.message());
    let code = status.code();
    if code == Code::NotFound {
        return RuntimeError::NotFound(format!("what {} is for", short(path)));
    }
    if code == Code::FailedPrecondition {
        return RuntimeError::NotPossible(text);
    }
    if code == Code::Unimplemented {
        return RuntimeError::Unsupported { runtime: "cri".into(), what: short(path).into() };
    }
    RuntimeError::Failed(text)
}
