#!/usr/bin/env bash
# All tests: one command, from any directory. Where Node is present the JavaScript SDK's own tests run too; without it they are
# left out with a word, since everything that they show is shown through the binary as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The binaries that the black-box tests drive, built as the tests are so that nothing is compiled twice.
cargo build --workspace --bins
target=${CARGO_TARGET_DIR:-$PWD/target}
export STEPWELL_BIN=$target/debug/stepwell SHOP_BIN=$target/debug/shop

cargo test --workspace
# Every planted fault must be caught by the simulator.
cargo test -p stepwell-sim --features planted-faults --test mutations
# Those of the rules by which runs begin and schedules fire, by their tables.
cargo test -p stepwell-core --features planted-faults --test it planted
# Many of those of the machine by its fuzz target, too.
cargo test -p stepwell-fuzz --no-default-features --features planted-faults --test planted
# Stepwell over the real stack dies at every point of every example, and at some of each story and of random programs; what is planted must
# be caught.
# With the features of the whole workspace, so that nothing but our own crates is compiled again.
cargo test --workspace --features stepwell-sweep/sweep --test examples --test stories --test programs --test schedules --test bulky --test planted -- --nocapture
# Those of the rules by which runs begin are caught by the suite of the store.
cargo test --workspace --features stepwell-sweep/sweep --test store planted

# The API against its own description: schemathesis needs Python.
if python3 -c 'import ensurepip, venv' 2>/dev/null; then
  tests/api.sh
else
  echo "tests/run.sh: no Python with venv (Debian: python3-venv); the API is not held against its description" >&2
fi

if command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ]; then
  (cd guest-sdk/js && node --experimental-vm-modules --no-warnings --test test/*.test.mjs)
else
  echo "tests/run.sh: no Node 20 or later; the JavaScript SDK's own tests are left out" >&2
fi
