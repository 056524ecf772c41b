//! The Kubernetes API, served from the embedded store: discovery, verbs, patches, watches, tables, over HTTP and in process.
//!
//! **Invariant.** Knows how objects are asked for, changed and watched; never what becomes of them: no controller lives here. What was
//! acknowledged is in the store; every read is at a revision; every write has a precondition. A body that is too large, too deep or malformed is
//! refused with a reason before it costs anything more. The only clock is [`clock`].

mod admission;
mod auth;
mod body;
mod certificates;
#[cfg(feature = "client")]
mod client;
mod clock;
mod continuation;
mod definitions;
mod derived;
mod descriptions;
mod discovery;
mod disk;
mod error;
mod expiry;
mod health;
mod http_server;
mod input;
mod kind_ref;
mod metrics;
mod negotiate;
mod object;
mod openapi;
mod query;
mod random;
mod recent;
mod request;
mod respond;
mod secrets;
mod selector;
mod server;
mod stall;
mod streams;
mod table;
mod trees;
mod verbs;

pub use auth::{Authenticator, Rbac, TokenKeys};
pub use body::{Body, Chunks};
pub use certificates::{Identity, Pem, certificate_authority, client_certificate, server_certificate};
pub use disk::log_store_notices;
pub use error::ApiError;
pub use http_server::{HttpOptions, TlsFiles, serve};
pub use lazaret_kinds::{Access, Features, Release, User};
pub use secrets::{ADMIN, Secrets, SecretsError, make_private_folder};
pub use server::{Authorizer, Server, ServerOptions};
