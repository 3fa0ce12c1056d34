#!/bin/sh
# Counts the instructions of the hottest kernels with valgrind (which knows AVX2, not AVX-512) and
# prints a table; instruction_counts.md holds the last one that was looked at.
#
#   sh bench/instruction_counts.sh [build folder]
set -eu
build=${1:-build}
program="$build/bench/kernel_counts"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
export STRATA_CPU_ISA=avx2

# Names of the kernels' functions in the program.
function_of() {
  case $1 in
    multiply_unpacked_*) echo '*multiply_unpacked*' ;;
    multiply_*) echo '*multiply_packed*' ;;
    scores_*) echo '*::scores<*' ;;
    weigh_*) echo '*::weigh<*' ;;
  esac
}

echo "| kernel (AVX2) | work | instructions | per 32 products |"
echo "|---|---|---:|---:|"
"$program" | while IFS="$(printf '\t')" read -r name what; do
  valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect="$(function_of "$name")" \
    "$program" "$name" 2>/dev/null
  count=$(sed -n 's/^summary: //p' "$out")
  case $name in
    multiply_unpacked_*) products=$((16 * 512 * 16)) ;;
    multiply_*) products=$((16 * 4096)) ;;
    *) products=$((8 * 256 * 64)) ;;
  esac
  per=$(awk "BEGIN { printf \"%.2f\", $count * 32 / $products }")
  echo "| $name | $what | $count | $per |"
done
