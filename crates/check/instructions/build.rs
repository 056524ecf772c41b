//! Tells the program by which compiler and for which machine it was made: a baseline holds for one of each.

use std::{env, process::Command};

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let number = version.split(' ').nth(1).unwrap_or("unknown");
    let target = env::var("TARGET").unwrap_or_default();
    let level = env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=BUILT_BY=rustc {number} {target} opt-level {level}");
    println!("cargo::rerun-if-changed=build.rs");
}
