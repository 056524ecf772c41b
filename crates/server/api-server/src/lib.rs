//! The Kubernetes API, served from the embedded store: discovery, verbs, patches, watches, tables, over HTTP and in process.
//!
//! **Invariant.** Knows how objects are requested, changed and watched; never what becomes of them: no controller lives here but the signer of
//! certificates, whose key never leaves the server. An acknowledged write
//! is in the store; every read is at a revision; every write has a precondition. A body that is too large, too deep or malformed is
//! refused with a reason before it costs anything more. The only clock is [`clock`].

mod access_log;
mod accounts;
mod address;
mod admission;
mod alerts;
mod audit;
mod auth;
mod authorizer;
mod body;
mod body_intake;
mod call;
mod ceilings;
mod certificates;
#[cfg(feature = "client")]
mod client;
mod clock;
mod compression;
mod connection;
mod connections;
mod continuation;
mod definitions;
mod delivery;
mod derived;
mod discovery;
mod disk;
mod error;
mod expiry;
mod flow_control;
mod front;
mod front_limits;
mod health;
mod http_server;
mod input;
mod kind_ref;
mod limits;
mod log_pace;
mod long;
mod long_requests;
mod metrics;
mod negotiate;
mod nulls;
mod object;
mod object_cache;
mod object_store;
mod open_requests;
mod openapi;
mod own_service;
mod pages;
mod panics;
mod pretty;
mod proxy;
mod query;
mod random;
mod recent_events;
mod renewal;
mod request;
mod request_permits;
mod respond;
mod routing;
mod runtime_config;
mod secrets;
mod selector;
mod server;
mod service_pool;
mod service_ranges;
mod signing;
mod stall;
mod streams;
mod table;
mod tls;
mod tunnel;
mod verbs;
mod websocket;

pub use address::ServerAddress;
pub use admission::AdmissionPlugin;
pub use alerts::{AlertAnswer, AlertSink};
pub use auth::{
    Authenticator, ControllerRole, Peer, Rbac, TokenKeys, controller_roles, controller_user, node_user,
};
pub use authorizer::Authorizer;
pub use body::{Body, Chunks};
pub use certificates::{
    Identity, Pem, Validity, authority_needs_renewal, certificate_authority, client_certificate,
    needs_renewal, renewed_authority, server_certificate, serving_certificate,
};
pub use error::ApiError;
pub use expiry::forget_trees_until;
pub use http_server::{HttpOptions, serve};
pub use lazaret_kinds::{Access, Features, Part, Release, User, own_definitions};
pub use limits::Limits;
pub use object_store::ObjectStore;
pub use pages::{Pages, Requester, SessionEnd, SessionOver};
pub use proxy::{NodeConnections, NodeTrust};
pub use renewal::{Renewal, Renewed};
pub use runtime_config::parse_runtime_config;
pub use secrets::{ADMIN, Secrets, SecretsError, make_private_folder, write_private_file};
pub use server::{Server, ServerOptions};
pub use service_ranges::ServiceRanges;
pub use signing::Signer;
pub use tls::{Tls, TlsFiles};
