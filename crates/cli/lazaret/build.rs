//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // At a fixed address, as programs in Go are by default. Otherwise the loader writes 340,000 addresses into the program each time it starts, and
    // the list of them and every page that has one stay in memory: 6 MB of a node agent, built for tests. Stack, heap and libraries are at
    // random addresses all the same.
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bin=lazaret=-no-pie");
    }
}
