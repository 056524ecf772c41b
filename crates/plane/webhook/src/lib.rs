//! An admission webhook: its certificate, its connections and the form of its questions and answers.
//!
//! **Invariant.** Knows nothing of the objects under review: the handler decides. Replicas share one certificate, which is in a
//! Secret; every write of it, and of the API server's configuration, has a precondition, so that it does not matter which replica writes.
//! Input of a connection is bounded in bytes, time and number. A replica that is not ready says so, and the configuration's `failurePolicy`
//! decides.

mod certificate;
mod certificate_manager;
mod clock;
mod metrics;
mod review;
mod serve;

pub use certificate_manager::{CertificateManager, Identity};
pub use review::{Decision, Question};
pub use serve::{About, Decide, Webhook};
