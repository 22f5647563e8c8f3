#!/usr/bin/env bash
# Runs the example beside a shop that stores the charge and loses its answer. Arguments go to `stepwell run`; SHOP_PORT chooses
# another port than the 4810 of input.json.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../shop/beside.sh" once/once.ts once/input.json \
  --fault 'POST /charges#1=drop:after-store' \
  -- "$@"
