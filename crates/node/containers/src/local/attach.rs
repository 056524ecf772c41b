//! Connections to the input and output of containers.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::unix::OwnedReadHalf,
    sync::mpsc,
};

use super::{
    Shared,
    exec::{INPUT_BYTES_MAX, RESIZES_MAX, feed},
    shim::{connect, read_reply},
};
use crate::{
    Attached, Phase, RuntimeError,
    protocol::{Decoder, Kind, Reply, Request},
};

/// Bytes of output that wait for who is attached, on this side.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

impl Shared {
    pub(super) async fn attach(self: &Arc<Self>, id: &str) -> Result<Attached, RuntimeError> {
        let directory = self.container(id)?;
        let Phase::Running { .. } = self.phase_of(&directory, id).await? else {
            return Err(RuntimeError::NotPossible(format!("container {id} does not run")));
        };
        let mut socket = connect(&directory.0).await?;
        let mut decoder = Decoder::default();
        let asked = socket.write_all(&Request::Attach.frame()).await;
        asked.map_err(|error| RuntimeError::Failed(format!("attach to container {id}: {error}")))?;
        let Reply::Attached { tty, stdin } = read_reply(&mut socket, &mut decoder).await? else {
            return Err(RuntimeError::Failed(format!("attach to container {id}: the shim refused")));
        };
        let (input, ours) = tokio::io::duplex(INPUT_BYTES_MAX);
        let (stdout, to_stdout) = tokio::io::duplex(OUTPUT_BYTES_MAX);
        let (stderr, to_stderr) = tokio::io::duplex(OUTPUT_BYTES_MAX);
        let (resize, sizes) = mpsc::channel(RESIZES_MAX);
        let (reader, mut writer) = socket.into_split();
        self.spawn(async move {
            tokio::select! {
                () = spread(reader, decoder, to_stdout, to_stderr) => {}
                () = feed(&mut writer, stdin.then_some(ours), sizes) => {}
            }
        });
        Ok(Attached {
            stdin: stdin.then(|| Box::new(input) as _),
            stdout: Some(Box::new(stdout)),
            stderr: (!tty).then(|| Box::new(stderr) as _),
            resize: tty.then_some(resize),
        })
    }
}

/// Passes on output until it ends. A reader of one stream that is gone does not end the other.
async fn spread(
    mut reader: OwnedReadHalf,
    mut decoder: Decoder,
    mut stdout: DuplexStream,
    mut stderr: DuplexStream,
) {
    let mut buffer = vec![0; INPUT_BYTES_MAX];
    let (mut wants_stdout, mut wants_stderr) = (true, true);
    while wants_stdout || wants_stderr {
        loop {
            match decoder.next() {
                Ok(Some((Kind::Stdout, bytes))) => {
                    wants_stdout = wants_stdout && stdout.write_all(bytes).await.is_ok()
                }
                Ok(Some((Kind::Stderr, bytes))) => {
                    wants_stderr = wants_stderr && stderr.write_all(bytes).await.is_ok()
                }
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => break,
            }
        }
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => decoder.push(&buffer[..count]),
        }
    }
}
