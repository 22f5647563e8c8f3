#!/usr/bin/env bash
# Runs the example beside a shop that stores the first charge and then falls silent, and that never says what was ordered.
# Arguments go to `stepwell run`; SHOP_PORT chooses another port than the 4810 of input.json.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../shop/beside.sh" timeouts/timeouts.ts timeouts/input.json \
  --fault 'POST /charges#1=hang:after-store' \
  --fault 'GET /orders/*=hang' \
  -- "$@"
