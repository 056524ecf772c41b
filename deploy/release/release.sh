#!/usr/bin/env bash
# Makes everything that a release consists of, in one folder, with checksums.
#
#   deploy/release/release.sh [FOLDER]     default: target/packages
#   LAZARET=target/debug/lazaret deploy/release/release.sh FOLDER     from a binary that is there already
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$(mkdir -p "${1:-target/packages}" && cd "${1:-target/packages}" && pwd)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
if [ -z "${LAZARET:-}" ]; then
  cargo build --profile dist --locked -p lazaret
  LAZARET=target/dist/lazaret
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$LAZARET" --version | cut -d' ' -f2)
system=$(uname -s | tr '[:upper:]' '[:lower:]')
machine=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
name=lazaret-$version-$system-$machine

# An archive that is the same for the same files.
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -cf - . | gzip -n >"$1"; }

tree=$work/$name
mkdir -p "$tree/man" "$tree/completions"
strip -o "$tree/lazaret" "$LAZARET"
cp LICENSE README.md "$tree/"
"$tree/lazaret" man "$tree/man" 2>/dev/null
"$tree/lazaret" device man "$tree/man" 2>/dev/null
for shell in bash zsh fish; do
  "$tree/lazaret" completion "$shell" >"$tree/completions/lazaret.$shell"
  "$tree/lazaret" device completion "$shell" >"$tree/completions/kubectl-device.$shell"
done
mkdir "$work/whole" && mv "$tree" "$work/whole/"
pack "$out/$name.tar.gz" "$work/whole"

# The plugin alone, as krew wants it.
mkdir "$work/plugin"
cp "$work/whole/$name/lazaret" "$work/plugin/kubectl-device"
cp LICENSE "$work/plugin/"
plugin=kubectl-device-$version-$system-$machine.tar.gz
pack "$out/$plugin" "$work/plugin"
sum=$(sha256sum "$out/$plugin" | cut -d' ' -f1)
sed -e "s/@VERSION@/$version/g; s/@OS@/$system/; s/@ARCH@/$machine/; s/@SHA256@/$sum/; s|@ARCHIVE@|$plugin|" deploy/release/krew.yaml >"$out/device.yaml"

host=$(rustc -vV | sed -n "s/^host: //p")
cargo metadata --format-version 1 --locked --filter-platform "$host" | python3 deploy/release/sbom.py Cargo.lock >"$out/$name.cdx.json"
python3 deploy/release/image.py "$work/whole/$name/lazaret" "$out/lazaret-$version-image-$machine.tar" --tag "lazaret:$version"
"$work/whole/$name/lazaret" install >"$out/lazaret-$version.yaml"
cp -r deploy/chart "$work/lazaret"
mkdir "$work/chart" && mv "$work/lazaret" "$work/chart/"
pack "$out/lazaret-chart-$version.tgz" "$work/chart"

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS)
cat "$out/SHA256SUMS"
