mod agreement;
mod build;
mod memory;
mod patching;
mod pools;
mod relation;
mod tracker;
