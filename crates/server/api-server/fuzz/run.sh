#!/bin/sh
# Runs one fuzz target on the stable toolchain: coverage counters, no sanitizers. `run.sh TARGET [libFuzzer arguments]`.
set -eu
cd "$(dirname "$0")"
name=$1
shift
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# An explicit target keeps build scripts and procedural macros free of the instrumentation.
target=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --target "$target" --bin "$name"
mkdir -p "corpus/$name"
exec "${CARGO_TARGET_DIR:-target}/$target/release/$name" -max_len=4096 -timeout=60 -rss_limit_mb=2048 "$@" "corpus/$name"
