#!/usr/bin/env bash
# The running server against its own description: schemathesis asks for whatever `/v1/openapi.json` allows and more, and every answer
# must be one that is written there; none is a failure of the server. Arguments go to schemathesis.
#
# schemathesis comes from PyPI, at the version below, into an environment of its own that is kept between runs. It takes SECONDS_AT_MOST.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
stepwell=$(realpath -m "${STEPWELL_BIN:-$target/debug/stepwell}")
[ -x "$stepwell" ] || cargo build -p stepwell
version=4.32.5
venv=${STEPWELL_API_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/stepwell-ci/schemathesis-$version}
if [ ! -x "$venv/bin/schemathesis" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

dir=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT

cat >"$dir/flows.ts" <<'TS'
import { workflow } from "stepwell";
export const echo = workflow("echo", async ({ input, step }: any) => step.run("echo", () => input));
export const waiting = workflow("waiting", async ({ waitForEvent }: any) => waitForEvent("answer"));
TS
# With a token: the first one that is made up would close the server to everything else.
STEPWELL_TOKEN=$("$stepwell" token create tests --scope admin --data-dir "$dir/data" --init 2>/dev/null)
export STEPWELL_TOKEN
mkfifo "$dir/out"
"$stepwell" serve --listen 127.0.0.1:0 --json --rate-limit 0 --data-dir "$dir/data" >"$dir/out" 2>"$dir/log" &
server=$!
read -r line <"$dir/out"
url=http://$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' <<<"$line")
"$stepwell" deploy "$dir/flows.ts" --url "$url"
"$stepwell" start waiting --run-key seen --url "$url" >/dev/null

# In the directory that goes in the end, since it keeps things where it runs.
cd "$dir"
hold() {
  "$venv/bin/schemathesis" run "$url/v1/openapi.json" --header "Authorization: Bearer $STEPWELL_TOKEN" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --phases examples,coverage,fuzzing --max-examples "${EXAMPLES:-25}" --seed "${SEED:-1}" --request-timeout 610 "$@"
}
seconds=${SECONDS_AT_MOST:-100}
# Events that are followed have no end while their run has none. What ends tokens comes last: it finds the one that it uses, too.
hold --exclude-path '/v1/runs/{id}/events' --exclude-path-regex '^/v1/tokens/' --max-time $((seconds - seconds / 5)) "$@"
hold --include-path-regex '^/v1/tokens/' --max-time $((seconds / 5)) "$@"

kill -0 "$server" || { cat "$dir/log" >&2; exit 1; }
