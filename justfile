# What is done with this repository, by name. Every recipe is a plain command; nothing needs `just`.

# Lists the recipes.
default:
    @just --list

# Formats all Rust code.
fmt:
    cargo fmt --all

# Formatting and clippy, warnings as errors.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# All tests, those of planted faults included.
test:
    tests/run.sh

# Everything that must hold for a change to land.
check: lint test

# The checkout example against its shop; arguments go to `stepwell run`.
run *args:
    examples/checkout/run.sh {{args}}

# Licences, advisories and sources of the dependencies. Needs cargo-deny.
deny:
    cargo deny check
