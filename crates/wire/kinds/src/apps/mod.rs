//! Kinds that make pods from templates: `apps` and `batch`.

mod cells;
mod cron_job;
mod daemon_set;
mod deployment;
mod failure_policy;
mod job;
mod replica_set;
mod rolling;
mod stateful_set;
mod success_policy;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use cron_job::CronJob;
pub(crate) use daemon_set::DaemonSet;
pub(crate) use deployment::Deployment;
pub(crate) use job::Job;
pub(crate) use replica_set::{ReplicaSet, ReplicationController};
pub(crate) use stateful_set::StatefulSet;
