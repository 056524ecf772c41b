//! Watches over a websocket: each event is a message of its own. Clients that cannot read an answer as it comes, browsers above all, watch
//! this way.

mod frames;
mod handshake;
mod pump;

pub(crate) use handshake::{Handshake, bearer_token, is_bearer_protocol};
pub(crate) use pump::Socket;
