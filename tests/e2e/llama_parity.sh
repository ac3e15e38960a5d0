#!/bin/sh
# Compares our logits with llama.cpp's, over an F32 model whose YaRN bounds are whole numbers (llama.cpp
# rounds them). Both come from outside: llama.cpp from npm, the model from numpy; without them the
# test is skipped.
set -u
here=${srcdir:-.}
npm=tests/e2e/npm-llama
model=tests/models/neutral-0
skip() { echo "1..0 # SKIP $*"; exit 77; }

[ -z "${TRND_SKIP_NPM:-}" ] || skip "TRND_SKIP_NPM is set"
{ command -v node && command -v npm; } >/dev/null || skip "no node or npm"
[ -s $model.stamp ] || skip "$model was not made (python3-numpy)"
if ! [ -s $npm/node_modules/node-llama-cpp/dist/index.js ]; then
    mkdir -p $npm && echo '{"private":true}' >$npm/package.json
    timeout 120 npm install --prefix $npm --no-audit --no-fund --fetch-retries=0 --ignore-scripts --omit=optional \
        node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1 >$npm/npm.log 2>&1 ||
        skip "npm install failed: $(grep -im1 err $npm/npm.log)"
fi
logits=$npm/logits.f32
if ! tests/e2e/print_logits $model/f32.gguf $model/ids.u32 >$logits; then
    printf '1..1\nnot ok 1 - print_logits\n'
    exit 1
fi
exec node "$here/tests/e2e/llama_parity.mjs" $npm/node_modules $model/f32.gguf $model/ids.u32 $logits
