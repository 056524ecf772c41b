//! Numbers under the names that Kubernetes gives them, and some of our own.

mod causes;
mod claims;
mod classic;
mod devices;
mod eviction;

pub(crate) use claims::ClaimsMetrics;
pub(crate) use classic::ClassicMetrics;
pub(crate) use devices::DeviceCounts;
pub(crate) use eviction::EvictionMetrics;
