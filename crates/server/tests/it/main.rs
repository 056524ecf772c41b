//! The server through its interface: one binary, for each is linked with the whole server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod address;
mod attacks;
mod certificates;
mod corpus;
mod custom;
mod default_roles;
mod devices_once;
mod disk;
mod health_policies;
mod http;
mod https;
mod input;
mod linear;
mod node_proxy;
mod opaque;
mod openapi;
mod pods;
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
mod values;
mod verbs;
mod watch;
mod webhook_server;
mod webhooks;
mod wire;
