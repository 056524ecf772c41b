#!/bin/sh
# Drives the dashboard in a real browser. Says NOT RUN where there is no node, npm or chromium and none can be had.
# Usage: run.sh PATH-TO-lazaret [FOLDER-FOR-SCREENSHOTS]
set -eu
lazaret=$(realpath "$1")
shots=${2:-}
cd "$(dirname "$0")"
chromium=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$chromium" ] && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; then
  chromium=$(command -v chromium || true)
fi
if [ -z "$chromium" ] || ! command -v npm >/dev/null; then
  echo "NOT RUN: the dashboard in a browser needs node, npm and chromium"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json test.mjs "$work"
if ! (cd "$work" && npm install --silent --no-audit --no-fund >/dev/null 2>&1); then
  echo "NOT RUN: playwright-core could not be installed"
  exit 0
fi
LAZARET=$lazaret CHROMIUM=$chromium SHOTS=$shots node "$work/test.mjs"
