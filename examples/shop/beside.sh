#!/usr/bin/env bash
# Builds Stepwell and the shop, starts the shop, and runs an example beside it, from any directory:
#
#     beside.sh FILE INPUT [--fault FAULT]... -- [arguments of `stepwell run`]
#
# FILE and INPUT are relative to examples/. SHOP_PORT chooses another port than the 4810 of the inputs; 0 takes any free one.
# Where STEPWELL_BIN and SHOP_BIN name programs, those are run and nothing is built.
set -euo pipefail

file=$1 input=$2
shift 2
faults=()
while [ "$1" != -- ]; do
  faults+=("$1")
  shift
done
shift

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${CARGO_TARGET_DIR:-target}/debug
stepwell=${STEPWELL_BIN:-$bin/stepwell} shop_bin=${SHOP_BIN:-$bin/shop}
port=${SHOP_PORT:-4810}

[ -n "${STEPWELL_BIN:-}" ] && [ -n "${SHOP_BIN:-}" ] || cargo build -p stepwell -p shop >&2

scratch=$(mktemp -d)
shop=
stop() {
  [ -z "$shop" ] || kill "$shop" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT

mkfifo "$scratch/listening"
"$shop_bin" --port "$port" "${faults[@]}" >"$scratch/listening" &
shop=$!
# Ends with the shop's first line, or with the shop.
if ! read -r line <"$scratch/listening"; then
  echo "the shop did not start; SHOP_PORT=<port> takes another port than $port" >&2
  exit 1
fi
echo "$line" >&2

sed "s|http://127\.0\.0\.1:4810|${line##* }|" "examples/$input" >"$scratch/input.json"
arguments=("examples/$file" --input "@$scratch/input.json")
# A run that goes on has its input, and the module that it began with.
for argument; do
  [ "$argument" != --resume ] || arguments=()
done

code=0
"$stepwell" run "${arguments[@]}" "$@" || code=$?
exit "$code"
