mod agreement;
mod build;
mod gates;
mod memory;
mod patching;
mod pools;
mod relation;
mod tracker;
