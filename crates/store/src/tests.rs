//! Tests of the whole: against a naive model, against a lying disk, against many threads.

mod concurrency;
mod crash;
mod damage;
mod disk_full;
mod limits;
mod model;
mod opening;
mod rig;
