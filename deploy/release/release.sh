#!/usr/bin/env bash
# Makes everything that a release consists of, in one folder, with checksums.
#
#   deploy/release/release.sh [FOLDER] [TARGET...]     default: target/packages, and the machine's own target
#   deploy/release/release.sh target/packages x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
#   LAZARET_X86_64=target/debug/lazaret deploy/release/release.sh FOLDER     from a binary that is there already; likewise LAZARET_AARCH64
#
# The first target is the machine's own: its binary writes the manual pages. Another one needs `rustup target add TARGET` and a C compiler for it
# (Debian: gcc-aarch64-linux-gnu).
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$(mkdir -p "${1:-target/packages}" && cd "${1:-target/packages}" && pwd)
host=$(rustc -vV | sed -n "s/^host: //p")
shift || true
targets=("${@:-$host}")
if [ "${targets[0]}" != "$host" ]; then
  echo "the first target must be $host: its binary writes the manual pages" >&2
  exit 1
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=${CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER:-$([ "$host" = x86_64-unknown-linux-gnu ] && echo cc || echo x86_64-linux-gnu-gcc)}
if [ "$host" = aarch64-unknown-linux-gnu ]; then CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=cc; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An archive that is the same for the same files.
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -cf - . | gzip -n >"$1"; }

# Names the tool of binutils that knows a target's files.
tool() { if [ "$1" = "$host" ]; then echo "$2"; else echo "${1%%-*}-linux-gnu-$2"; fi; }

# The architecture of a binary, as a target begins with it.
machine_of() { case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in 62) echo x86_64 ;; 183) echo aarch64 ;; *) echo unknown ;; esac; }

# Stripped binary, archives, image and bill of materials of one target.
package() {
  local target=$1 binary=$2
  local machine name tree plugin sum
  machine=$(echo "${target%%-*}" | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  name=lazaret-$version-linux-$machine
  tree=$work/$target/$name
  mkdir -p "$tree"
  "$(tool "$target" strip)" -o "$tree/lazaret" "$binary"
  cp LICENSE README.md "$tree/"
  cp -r "$work/man" "$work/completions" "$tree/"
  pack "$out/$name.tar.gz" "$work/$target"

  # The plugin alone, as krew wants it.
  mkdir "$work/plugin-$machine"
  cp "$tree/lazaret" "$work/plugin-$machine/kubectl-device"
  cp LICENSE "$work/plugin-$machine/"
  plugin=kubectl-device-$version-linux-$machine.tar.gz
  pack "$out/$plugin" "$work/plugin-$machine"
  sum=$(sha256sum "$out/$plugin" | cut -d' ' -f1)
  sed -n '/^    - selector:/,$p' deploy/release/krew.yaml | sed -e "s/@OS@/linux/; s/@ARCH@/$machine/; s/@SHA256@/$sum/; s|@ARCHIVE@|$plugin|" >>"$work/platforms"

  cargo metadata --format-version 1 --locked --filter-platform "$target" | python3 deploy/release/sbom.py Cargo.lock >"$out/$name.cdx.json"
  python3 deploy/release/image.py "$tree/lazaret" "$out/lazaret-$version-image-$machine.tar" --tag "lazaret:$version"
}

binaries=()
for target in "${targets[@]}"; do
  given=LAZARET_$(echo "${target%%-*}" | tr a-z A-Z)
  if [ -n "${!given:-}" ]; then
    binary=${!given}
  else
    cargo build --profile dist --locked -p lazaret --target "$target"
    binary=${CARGO_TARGET_DIR:-target}/$target/dist/lazaret
  fi
  if [ "$(machine_of "$binary")" != "${target%%-*}" ]; then
    echo "$binary is for $(machine_of "$binary"), not for $target" >&2
    exit 1
  fi
  binaries+=("$binary")
done
own=${binaries[0]}
version=$("$own" --version | cut -d' ' -f2)
mkdir "$work/man" "$work/completions"
"$own" man "$work/man" 2>/dev/null
"$own" device man "$work/man" 2>/dev/null
for shell in bash zsh fish; do
  "$own" completion "$shell" >"$work/completions/lazaret.$shell"
  "$own" device completion "$shell" >"$work/completions/kubectl-device.$shell"
done
for at in "${!targets[@]}"; do package "${targets[$at]}" "${binaries[$at]}"; done

{ sed -e '/^    - selector:/,$d' -e "s/@VERSION@/$version/g" deploy/release/krew.yaml; cat "$work/platforms"; } >"$out/device.yaml"
"$own" install >"$out/lazaret-$version.yaml"
mkdir "$work/chart" && cp -r deploy/chart "$work/chart/lazaret"
pack "$out/lazaret-chart-$version.tgz" "$work/chart"

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS)
cat "$out/SHA256SUMS"
