//! One connection to a port of a pod.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lazaret_containers::Runtime;
use lazaret_spdy as frames;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    sync::mpsc,
    time::timeout,
};

/// Bytes read from the pod at once.
const READ_BYTES: usize = 16 << 10;
/// How long a pod may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Forward {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) sandbox: String,
    pub(super) pod: String,
    pub(super) port: u16,
    /// The streams of the session.
    pub(super) data: u32,
    pub(super) error: u32,
    pub(super) out: mpsc::Sender<Vec<u8>>,
}

impl Forward {
    /// Carries bytes until the pod closes the connection, or the client is gone.
    pub(super) async fn run(self, from_client: mpsc::Receiver<Bytes>) {
        let failed = self.carry(from_client).await.err();
        let text =
            failed.map(|why| format!("error forwarding port {} to pod {}: {why}", self.port, self.pod));
        let _ = self.out.send(frames::data(self.data, b"", true)).await;
        let _ = self.out.send(frames::data(self.error, text.unwrap_or_default().as_bytes(), true)).await;
    }

    async fn carry(&self, mut from_client: mpsc::Receiver<Bytes>) -> Result<(), String> {
        let connected = timeout(CONNECT_WAIT, self.runtime.connect(&self.sandbox, self.port)).await;
        let connection =
            connected.map_err(|_| "connection timed out".to_owned())?.map_err(|error| error.to_string())?;
        let (mut reading, mut writing) = split(connection);
        let to_pod = async {
            while let Some(bytes) = from_client.recv().await {
                writing.write_all(&bytes).await?;
                writing.flush().await?;
            }
            writing.shutdown().await
        };
        let to_client = async {
            let mut block = vec![0; READ_BYTES];
            loop {
                match reading.read(&mut block).await? {
                    0 => return std::io::Result::Ok(()),
                    read => {
                        if self.out.send(frames::data(self.data, &block[..read], false)).await.is_err() {
                            return Ok(());
                        }
                    }
                }
            }
        };
        tokio::pin!(to_pod, to_client);
        tokio::select! {
            ended = &mut to_client => ended.map_err(|error| error.to_string()),
            // The pod may still answer after the client has ended its side.
            ended = &mut to_pod => {
                ended.map_err(|error| error.to_string())?;
                to_client.await.map_err(|error| error.to_string())
            }
        }
    }
}
