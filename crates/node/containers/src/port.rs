//! Connections to ports of pods.

use std::{
    fs::File,
    net::{IpAddr, Ipv6Addr, TcpStream},
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Connection, RuntimeError};

/// How long a connection to a port of a pod may take. It is on a loopback interface.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Connects to a port on the loopback address of a network namespace, or of the host without one.
///
/// # Errors
/// [`RuntimeError::NotPossible`] when no process listens.
pub async fn connect_in(network: Option<PathBuf>, port: u16) -> Result<Box<dyn Connection>, RuntimeError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own: it enters the pod's network, and ends there.
    let work = move || {
        let _ = sender.send(connect(network.as_deref(), port));
    };
    let thread = std::thread::Builder::new().name("port-forward".to_owned()).spawn(work);
    thread.map_err(|error| RuntimeError::Failed(format!("start a thread: {error}")))?;
    let stream = receiver.await.map_err(|_| RuntimeError::Failed("a thread ended".to_owned()))??;
    let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::TcpStream::from_std(stream));
    let stream = stream.map_err(|error| RuntimeError::Failed(format!("port {port}: {error}")))?;
    Ok(Box::new(stream))
}

fn connect(network: Option<&Path>, port: u16) -> Result<TcpStream, RuntimeError> {
    if let Some(path) = network {
        let failed =
            |error: std::io::Error| RuntimeError::Failed(format!("enter {}: {error}", path.display()));
        let network = File::open(path).map_err(failed)?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| failed(error.into()))?;
    }
    let addresses = [IpAddr::from([127, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()];
    let connect = |address| TcpStream::connect_timeout(&(address, port).into(), CONNECT_TIME_MAX);
    let [first, second] = addresses.map(connect);
    first.or(second).map_err(|error| RuntimeError::NotPossible(format!("port {port} of the pod: {error}")))
}
