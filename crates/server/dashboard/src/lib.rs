//! The dashboard: pages for people, and their sessions.
//!
//! A [`Dashboard`] answers requests below `/ui/`: its files, and the exchange of a one-time token for a session. All else that the page shows it
//! reads from the Kubernetes API as the session's user.
//!
//! **Invariant.** It has no rights of its own and no API of its own: a session only says which user asks. A one-time token holds once and for a
//! short time; a session needs both a cookie that no script can read and a secret that no other site can send; neither is stored in a form that
//! can be used. An answer that goes on ends with the session in which it was asked for. Every answer carries the headers that keep others from framing, scripting or guessing it.
//!
//! It must never know an object of the API, a clock, or who may do what.

mod assets;
mod bundle;
mod pages;
mod sessions;

pub use assets::{Asset, assets};
pub use bundle::{Module, bundle};
pub use pages::{Dashboard, Transport};
pub use sessions::{
    LOGIN_SECONDS_MAX, SESSION_IDLE_SECONDS_MAX, SESSION_SECONDS_MAX, SessionEnd, SessionOver, Sessions,
    Visit,
};
