//! Alertmanager's webhook: an alert that fires becomes a DeviceSignal of the device that its labels name, and is deleted when it is resolved.
//!
//! [`Receiver`] takes the bytes of one notification, from whoever has been found to be permitted to send it; [`serve`] asks for that over HTTPS, where no
//! API server does.
//!
//! **Invariant.** Nothing is written for somebody who has not proven who they are and what they may do, nor for an alert that cannot be read or names no device, or
//! several. What is sent is bounded in bytes, alerts and time. It must never know what follows from a signal.

mod https;
mod matching;
mod payload;
mod receiver;
mod reviews;

pub use https::{Serving, TlsError, serve};
pub use receiver::{Answer, BODY_BYTES_MAX, Outcome, Receiver};
