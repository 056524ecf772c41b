//! Everyone who lives off the API server.

pub(crate) mod admin;
pub(crate) mod claims;
pub(crate) mod client;
pub(crate) mod controller;
pub(crate) mod drivers;
pub(crate) mod election;
pub(crate) mod guards;
pub(crate) mod health;
pub(crate) mod health_hear;
pub(crate) mod health_writes;
pub(crate) mod kubelets;
pub(crate) mod lives;
pub(crate) mod news;
pub(crate) mod nodes;
pub(crate) mod part;
pub(crate) mod people;
pub(crate) mod prepared;
pub(crate) mod replacement;
pub(crate) mod replacement_hear;
pub(crate) mod replacement_policies;
pub(crate) mod replacement_writes;
pub(crate) mod scheduler;
pub(crate) mod turn;
pub(crate) mod workloads;
pub(crate) mod writes;
