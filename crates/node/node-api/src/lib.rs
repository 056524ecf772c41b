//! The API of a node: logs, exec, attach and port-forward of its pods, over HTTPS, as kubelet has it.
//!
//! [`NodeApi`] answers on a listener, with the certificate that [`Certificate`] holds at the time. A client is known by a
//! certificate of the cluster's authority, or by a token that the API server vouches for ([`Reviews`]).
//!
//! An agent makes a [`Certificate`] (empty, and [`keep_certificate`] in a task of its own; or self-signed), a [`Tls`] of it and of the
//! cluster's authority, and calls [`NodeApi::serve`] on a listener whose port it writes to the Node as
//! `status.daemonEndpoints.kubeletEndpoint.Port`. A certificate for the node's own name alone is approved by the API server without a
//! person; the API server looks at the subject and not at addresses.
//!
//! **Invariant.** A request is answered only after authentication and authorization. Data from a client is bounded. It must never
//! know how a container is run.

mod access;
mod caller;
mod clock;
mod logs;
mod pods;
mod request;
mod respond;
mod reviews;
mod server;
mod serving;
mod spdy;
mod stats;
mod streams;
mod tls;
mod websocket;

pub use caller::{API_SERVER, Caller};
pub use pods::{Found, FoundSandbox, NotFound, Pods};
pub use reviews::{ApiReviews, Review, Reviews};
pub use server::{NodeApi, Options};
pub use serving::{ServingError, keep_certificate};
pub use tls::{Certificate, Tls, TlsError};
