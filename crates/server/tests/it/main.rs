//! The server through its interface: one binary, for each is linked with the whole server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod address;
mod attacks;
mod certificates;
mod corpus;
mod custom;
mod disk;
mod http;
mod https;
mod input;
mod linear;
mod node_proxy;
mod opaque;
mod openapi;
mod policies;
mod preconditions;
mod quota;
mod refusals;
mod roles;
mod served_page;
mod services;
mod status_metadata;
mod support;
mod surroundings;
mod trees;
mod unheeded;
mod verbs;
mod watch;
mod webhook_server;
mod webhooks;
mod wire;
