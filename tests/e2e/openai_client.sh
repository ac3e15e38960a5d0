#!/bin/sh
# The official JavaScript client against a running daemon. Comes from npm; skipped without it.
modules=tests/e2e/npm-openai
skip() { echo "1..0 # SKIP $*"; exit 77; }
[ -z "${TRND_SKIP_NPM:-}" ] || skip "TRND_SKIP_NPM is set"
{ command -v node && command -v npm; } >/dev/null || skip "no node or npm"
if ! [ -d $modules/node_modules/openai ]; then
    mkdir -p $modules && echo '{"private":true}' >$modules/package.json
    timeout 120 npm install --prefix $modules --no-audit --no-fund --fetch-retries=0 --ignore-scripts openai@6 \
        >$modules/npm.log 2>&1 || skip "npm install failed: $(grep -im1 err $modules/npm.log)"
fi
. "${srcdir:-.}/tests/e2e/lib.sh"
start --server.keepalive 0.2s --plan 4x2
node "${srcdir:-.}/tests/e2e/openai_client.mjs" "$url" "$(pwd)/$modules"
status=$?
stop
[ $status = 0 ] && [ "$rc" = 0 ]
