//! The cluster's address: TLS on loopback, for programs outside this process.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::mpsc,
    time::Duration,
};

use lazaret_server::{Authenticator, HttpOptions, Secrets, Server, serve};
use tokio::sync::watch;

use crate::{StartError, host::Host};

/// How long requests in flight may take to end when the front is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A listening server. Dropping it frees the address.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Front {
    /// Takes over a port that was kept, or listens at a free one of loopback.
    pub(crate) fn open(
        host: &Host,
        server: Server,
        secrets: &Secrets,
        kept: Option<TcpListener>,
    ) -> Result<Self, StartError> {
        let listener = match kept {
            Some(kept) => kept,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(StartError::Listen)?,
        };
        listener.set_nonblocking(true).map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let tls = secrets.tls(address)?;
        let serving = {
            let _inside = host.handle().enter();
            let listener = listener.try_clone().map_err(StartError::Listen)?;
            tokio::net::TcpListener::from_std(listener).map_err(StartError::Listen)?
        };
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = mpsc::channel();
        let options = HttpOptions { tls: Some(tls), authenticator: Authenticator::default() };
        host.handle().spawn(async move {
            let mut cut = stopped.clone();
            let timeout = async {
                let _ = cut.wait_for(|stop| *stop).await;
                tokio::time::sleep(CLOSE_TIMEOUT).await;
            };
            let own_service = server.clone();
            tokio::select! {
                () = own_service.keep_own_service(address) => {}
                _ = serve(server, serving, options, stopped) => {}
                () = timeout => {}
            }
            drop(end);
        });
        Ok(Self { address, listener, stop, ended })
    }

    /// Keeps the port while no server accepts: clients that connect wait, and no other process on this machine can take it.
    pub(crate) fn keep_port(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // Returns when the task has dropped its end: nothing is ever sent.
        let _ = self.ended.recv_timeout(CLOSE_TIMEOUT * 10);
    }
}
