#!/bin/sh
# Runs every fuzz target of a build folder from its seeds:
#   tools/fuzz.sh BUILD_FOLDER SECONDS_PER_TARGET
# New inputs go to a temporary folder that is removed; what crashes, hangs or takes too much memory
# is kept in BUILD_FOLDER/artifacts. Ends with 1 when there was such a thing.
set -eu
build=$1
seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)
artifacts=$build/artifacts
mkdir -p "$artifacts"
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT INT TERM

count=0
failed=""
for target in "$build"/fuzz/fuzz_*; do
  [ -x "$target" ] || continue
  name=${target##*/fuzz_}
  count=$((count + 1))
  mkdir "$corpus/$name"
  seeds=""
  if [ -d "$root/fuzz/seeds/$name" ]; then seeds="$root/fuzz/seeds/$name"; fi
  dictionary=""
  if [ -f "$root/fuzz/$name.dict" ]; then dictionary="-dict=$root/fuzz/$name.dict"; fi
  echo "fuzz $name: $seconds s"
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="$artifacts/$name-" -verbosity=0 -print_final_stats=1 $dictionary \
    "$corpus/$name" $seeds >"$corpus/$name.log" 2>&1; then
    grep -E "number_of_executed_units|average_exec_per_sec|peak_rss" "$corpus/$name.log" |
      sed 's/^stat::/  /' || true
  else
    failed="$failed $name"
    tail -n 60 "$corpus/$name.log"
  fi
done
if [ -n "$failed" ]; then
  echo "fuzz: failed:$failed (inputs in $artifacts)" >&2
  exit 1
fi
echo "fuzz: $count targets, nothing found"
