//! The memory of a device. `cargo bench -p lazaret-fleet --bench memory [devices per slice]`.
//!
//! Loads 800,000 devices with ten attributes each and divides the growth of the process's resident memory, so that
//! what the allocator of memory wastes is counted too. Linux only.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

#[allow(dead_code, reason = "shared by benches that use different parts")]
mod world;

use std::sync::Arc;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use lazaret_fleet::{Fleet, Input};

const DEVICES: usize = 800_000;

fn main() -> std::io::Result<()> {
    let wanted: Option<usize> = std::env::args().find_map(|argument| argument.parse().ok());
    let Some(per_slice) = wanted else {
        // A process of its own for each: freed memory is not given back to the system.
        for per_slice in ["1", "8", "64"] {
            std::process::Command::new(std::env::current_exe()?).arg(per_slice).status()?;
        }
        return Ok(());
    };
    let slices = DEVICES / per_slice;
    let before = resident_bytes();
    let mut fleet = Fleet::new();
    for at in 0..slices {
        fleet.apply(Input::Slice(Arc::new(world::slice(at, per_slice))));
    }
    drop(fleet.take_changes());
    let loaded = resident_bytes();
    let snapshot = fleet.snapshot();
    let published = resident_bytes();
    println!(
        "{slices} slices of {per_slice}: {} bytes a device, {} with a snapshot of {} pools",
        (loaded - before) / DEVICES,
        (published - before) / DEVICES,
        snapshot.pool_count(),
    );
    Ok(())
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) * 1024
}
