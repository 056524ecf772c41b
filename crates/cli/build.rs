//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // At a fixed address, as kubelet and containerd are. Otherwise the loader writes 300,000 addresses into the program each time it starts, and
    // the list of them and every page that has one stay in memory: 8 MB of a node agent's 34. Stack, heap and libraries are at random addresses
    // all the same, and without unsafe code there is little to gain from the rest.
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bin=lazaret=-no-pie");
    }
}
