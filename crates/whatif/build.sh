#!/bin/sh
# Builds the module that the dashboard runs in the browser, and puts it where the dashboard takes it from. It is kept in the source tree because
# a machine with Rust alone has no target for WebAssembly; `cargo test --test whatif` compares it with this tree's own answers.
set -eu
cd "$(dirname "$0")/../.."
rustup target list --installed | grep -q "^wasm32-wasip1$" || rustup target add wasm32-wasip1
out=${CARGO_TARGET_DIR:-target}
home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="--remap-path-prefix=$home=/cargo --remap-path-prefix=$PWD=/lazaret" \
  cargo build --locked --package lazaret-whatif --bin lazaret-whatif --profile wasm --target wasm32-wasip1
gzip -9 -n -c "$out/wasm32-wasip1/wasm/lazaret-whatif.wasm" > crates/dashboard/ui/whatif.wasm.gz
ls -l crates/dashboard/ui/whatif.wasm.gz
