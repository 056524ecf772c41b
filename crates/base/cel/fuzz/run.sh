#!/bin/sh
# Runs the fuzz target on the stable toolchain: coverage counters, no sanitizers. Arguments go to libFuzzer.
set -eu
cd "$(dirname "$0")"
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# An explicit target keeps build scripts and procedural macros free of the instrumentation.
target=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --target "$target" --bin compile_eval
exec "${CARGO_TARGET_DIR:-target}/$target/release/compile_eval" -max_len=2048 -timeout=60 \
    -rss_limit_mb=2048 "$@" corpus/compile_eval
