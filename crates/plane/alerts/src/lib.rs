//! Alertmanager's webhook: an alert that fires becomes a DeviceSignal of the device that its labels name, and is deleted when it is resolved.
//!
//! [`Receiver`] takes the bytes of one notification from a sender that is already authorised; [`serve`] authorises senders over HTTPS, where no
//! API server does.
//!
//! **Invariant.** Nothing is written for a caller that is not authenticated and authorised, nor for an alert that cannot be read or names no
//! device, or several. A notification is bounded in bytes, alerts and time. It must never know what follows from a signal.

mod https;
mod matching;
mod payload;
mod receiver;
mod reviews;

pub use https::{Serving, TlsError, serve};
pub use receiver::{Answer, BODY_BYTES_MAX, Outcome, Receiver};
