#!/usr/bin/env bash
# Runs the example beside a shop that refuses two charges, and tells the first label to come back in a second. Arguments go to
# `stepwell run`; SHOP_PORT chooses another port than the 4810 of input.json.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../shop/beside.sh" retries/retries.ts retries/input.json \
  --fault 'POST /charges#1-2=status:503' \
  --fault 'POST /labels#1=status:429,retry-after:1' \
  -- "$@"
