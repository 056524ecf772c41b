//! The tunnel between a client and a node once both agree.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until, timeout},
};

/// A stream over which nothing goes ends after this long, as kubelet's `streamingConnectionIdleTimeout`.
const IDLE_MAX: Duration = Duration::from_secs(4 * 3_600);
/// Bytes that are copied at once, in each direction.
const PIECE_BYTES: usize = 16 << 10;
/// How long both sides may take to switch protocols after they said so.
const SWITCH_WAIT: Duration = Duration::from_secs(10);
/// How long the last bytes may take.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Two connections that become one.
#[derive(Clone)]
pub(crate) struct Tunnel {
    headers: HeaderMap,
    ends: Arc<Mutex<Option<TunnelEnds>>>,
}

struct TunnelEnds {
    client: OnUpgrade,
    node: OnUpgrade,
    held: OwnedSemaphorePermit,
    ending: watch::Receiver<bool>,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tunnel")
    }
}

impl Tunnel {
    pub(crate) fn new(
        headers: HeaderMap,
        client: OnUpgrade,
        node: OnUpgrade,
        held: OwnedSemaphorePermit,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self { headers, ends: Arc::new(Mutex::new(Some(TunnelEnds { client, node, held, ending }))) }
    }

    /// The headers of the answer to the client.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Carries until one side ends, nothing goes for too long, or the server stops.
    pub(crate) async fn run(self) {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(TunnelEnds { client, node, held, mut ending }) = ends else { return };
        let both = timeout(SWITCH_WAIT, async { tokio::join!(client, node) }).await;
        if let Ok((Ok(client), Ok(node))) = both {
            tokio::select! {
                () = carry(TokioIo::new(client), TokioIo::new(node)) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }
        drop(held);
    }
}

async fn carry<C, N>(client: C, node: N)
where
    C: AsyncRead + AsyncWrite + Unpin,
    N: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = split(client);
    let (mut from_node, mut to_node) = split(node);
    let idle = LastActivity::default();
    tokio::select! {
        _ = copy(&mut from_client, &mut to_node, &idle) => {}
        _ = copy(&mut from_node, &mut to_client, &idle) => {}
        () = idle.too_long() => {}
    }
    let _ = timeout(LAST_WAIT, async { tokio::join!(to_client.shutdown(), to_node.shutdown()) }).await;
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    idle: &LastActivity,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        idle.touch();
        to.write_all(&piece[..read]).await?;
        to.flush().await?;
    }
}

/// When something was carried last.
struct LastActivity {
    started: Instant,
    last_ms: AtomicU64,
}

impl Default for LastActivity {
    fn default() -> Self {
        Self { started: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl LastActivity {
    fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    async fn too_long(&self) {
        loop {
            let due = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + IDLE_MAX;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_until_one_side_ends_or_nothing_goes_for_hours() {
        let ((mut client, near), (far, mut node)) = (duplex(64), duplex(64));
        let talk = async {
            client.write_all(b"ping").await.unwrap();
            let mut read = [0; 4];
            node.read_exact(&mut read).await.unwrap();
            tokio::time::sleep(IDLE_MAX - Duration::from_secs(1)).await;
            node.write_all(&read).await.unwrap();
            client.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"ping");
            let quiet_since = Instant::now();
            assert_eq!(client.read(&mut read).await.unwrap(), 0);
            assert!(quiet_since.elapsed() >= IDLE_MAX - Duration::from_secs(1));
        };
        tokio::join!(carry(near, far), talk);
        let ((client, near), (far, mut node)) = (duplex(64), duplex(64));
        drop(client);
        carry(near, far).await;
        assert_eq!(node.read(&mut [0; 4]).await.unwrap(), 0);
    }
}
