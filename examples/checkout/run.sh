#!/usr/bin/env bash
# Runs the checkout. The charge is refused once, the label is told to come back in a second: the first run shows what a retry
# looks like. Arguments go to `stepwell run`, e.g. `--resume RUN`: the shop is then a new one, on the same port, that has
# forgotten what the first one stored. SHOP_PORT chooses another port than the 4810 of order.json.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../shop/beside.sh" checkout/checkout.ts checkout/order.json \
  --fault 'POST /charges#1=status:503' \
  --fault 'POST /labels#1=status:429,retry-after:1' \
  -- "$@"
