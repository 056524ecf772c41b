#!/bin/sh
# Builds the module that the dashboard runs in the browser, and puts it where the dashboard takes it from. It is kept in the source tree because
# a machine with Rust alone has no target for WebAssembly; `cargo test --test whatif` compares it with this tree's own answers.
#
# The standard library is built as well, for size and without the texts of panics: a program that panics in a page is one that failed, whatever
# it would say. Both are a quarter of the module, and both are flags that the compiler calls unstable, which RUSTC_BOOTSTRAP permits.
# Needs `wasm-opt` (the package binaryen) and `brotli`.
set -eu
cd "$(dirname "$0")/../../.."
rustup target list --installed | grep -q "^wasm32-wasip1$" || rustup target add wasm32-wasip1
rustup component list --installed | grep -q "^rust-src" || rustup component add rust-src
out=${CARGO_TARGET_DIR:-target}
home=${CARGO_HOME:-$HOME/.cargo}
RUSTC_BOOTSTRAP=1 \
  RUSTFLAGS="--remap-path-prefix=$home=/cargo -Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none" \
  cargo build -Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size --locked --package lazaret-whatif --bin lazaret-whatif --profile wasm --target wasm32-wasip1
small=$out/wasm32-wasip1/wasm/whatif.wasm
wasm-opt -Oz --converge --strip-debug --strip-producers --enable-bulk-memory --enable-sign-ext --enable-nontrapping-float-to-int --enable-mutable-globals \
  "$out/wasm32-wasip1/wasm/lazaret-whatif.wasm" -o "$small"
gzip -9 -n -c "$small" > crates/server/dashboard/ui/whatif.wasm.gz
brotli -q 11 -w 24 -f -o crates/server/dashboard/ui/whatif.wasm.br "$small"
ls -l crates/server/dashboard/ui/whatif.wasm.gz crates/server/dashboard/ui/whatif.wasm.br
