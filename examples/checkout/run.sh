#!/usr/bin/env bash
# Builds Stepwell and the shop, starts the shop with two faults, and runs the checkout against it, from any directory.
# Arguments go to `stepwell run`, e.g. `--resume RUN`: the shop is then a new one, on the same port, that has forgotten what
# the first one stored. SHOP_PORT chooses another port than the 4810 of order.json.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=examples/checkout
bin=${CARGO_TARGET_DIR:-target}/debug
port=${SHOP_PORT:-4810}

cargo build -p stepwell -p shop >&2

scratch=$(mktemp -d)
shop=
stop() {
  [ -z "$shop" ] || kill "$shop" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT

# The charge is refused once, the label is told to come back in a second: the first run shows what a retry looks like.
mkfifo "$scratch/listening"
"$bin/shop" --port "$port" \
  --fault 'POST /charges#1=status:503' \
  --fault 'POST /labels#1=status:429,retry-after:1' >"$scratch/listening" &
shop=$!
# Ends with the shop's first line, or with the shop.
if ! read -r line <"$scratch/listening"; then
  echo "run.sh: the shop did not start; SHOP_PORT=<port> takes another port than $port" >&2
  exit 1
fi
echo "$line" >&2

order=$here/order.json
if [ "$port" != 4810 ]; then
  order=$scratch/order.json
  sed "s|127\.0\.0\.1:4810|127.0.0.1:$port|" "$here/order.json" >"$order"
fi

code=0
"$bin/stepwell" run "$here/checkout.ts" --input "@$order" "$@" || code=$?
exit "$code"
