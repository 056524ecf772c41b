//! Tests of the whole: against a naive model, against a lying disk, against many threads.

mod archive;
mod concurrency;
mod crash;
mod damage;
mod disk_full;
mod encryption;
mod groups;
mod healing;
mod limits;
mod linear;
mod model;
mod opening;
mod rig;
mod usage;
