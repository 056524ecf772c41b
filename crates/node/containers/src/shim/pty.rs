//! Terminals, and how runc hands one over.

use std::{
    io::{IoSliceMut, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
};

use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// The name of the socket in a container's directory.
pub(super) const CONSOLE: &str = "console";

/// A new terminal: the side that is kept and the side of the program.
pub(super) fn open() -> Result<(OwnedFd, OwnedFd), String> {
    let open = || -> rustix::io::Result<_> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let user = ioctl_tiocgptpeer(&controller, flags)?;
        Ok((controller, user))
    };
    open().map_err(|error| format!("open a terminal: {error}"))
}

/// A socket on which runc hands over a terminal. It is in the current directory, and named by a path that is short
/// whatever that directory is.
pub(super) fn listen(name: &str) -> Result<(UnixListener, String), String> {
    let failed = |error| format!("listen for the terminal: {error}");
    let _ = std::fs::remove_file(name);
    let listener = UnixListener::bind(name).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, format!("/proc/{}/cwd/{name}", std::process::id())))
}

/// The terminal that runc sent before it ended.
pub(super) fn receive(listener: &UnixListener) -> Result<OwnedFd, String> {
    let (mut socket, _) =
        listener.accept().map_err(|error| format!("no terminal was handed over: {error}"))?;
    let received = receive_fd(&socket)?;
    let _ = socket.read(&mut [0; 1]);
    Ok(received)
}

fn receive_fd(socket: &UnixStream) -> Result<OwnedFd, String> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut name = [0; 4096];
    recvmsg(socket, &mut [IoSliceMut::new(&mut name)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| format!("receive the terminal: {error}"))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err("a message without a terminal".to_owned())
}

/// Sets the size from a frame's payload; what is no size is left alone.
pub(super) fn resize(terminal: impl AsFd, payload: &[u8]) {
    if let [a, b, c, d] = *payload {
        let (ws_col, ws_row) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let _ = tcsetwinsize(terminal, Winsize { ws_col, ws_row, ws_xpixel: 0, ws_ypixel: 0 });
    }
}
