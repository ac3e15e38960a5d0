#!/bin/sh
# Routes, refusals and whole answers of a running daemon.
. "${srcdir:-.}/tests/e2e/lib.sh"
start

# -- what is there
is "health" "$(curl -s "$url/health")" '{"status":"ok"}'
for p in /healthz /livez /readyz /ping /health/; do is "$p" "$(code "$url$p")" 200; done
has "version" "$(curl -s "$url/version")" '"version":"[0-9]'
is "models" "$(curl -s "$url/v1/models" | jq -r '.data[0].id')" nano
is "a model" "$(curl -s "$url/v1/models/nano/" | jq -r .object)" model
is "no such model" "$(curl -s "$url/v1/models/x%2Fy" | jq -r '.error | "\(.code) \(.param)"')" "model_not_found model"
is "chips" "$(curl -s "$url/v1/chips" | jq -r '"\(.object) \(.chips | length) \(.replicas | length)"')" "chips 144 72"
has "chips as text" "$(curl -s "$url/v1/chips?format=text")" '^machine trn3-ultraserver'
has "chips by Accept" "$(curl -s -H 'accept: text/plain' "$url/v1/chips")" '^machine trn3-ultraserver'

# -- what is not
is "unknown path" "$(curl -s "$url/v2/x" | jq -rc '.error | [.type, .param, .code]')" '["invalid_request_error",null,"unknown_url"]'
head=$(curl -s -i -X DELETE "$url/v1/models")
has "405" "$head" '^HTTP/1.1 405'
has "405 says what is allowed" "$head" '^[Aa]llow: GET, HEAD, OPTIONS'
is "OPTIONS" "$(code -X OPTIONS "$url/v1/chat/completions")" 204
is "HEAD" "$(curl -s -I "$url/health" | head -1 | tr -d '\r')" "HTTP/1.1 200 OK"
is "media type" "$(code "$url/v1/chat/completions" -H 'content-type: text/xml' -d '<a/>')" 415
is "coding" "$(code "$url/v1/chat/completions" -H "$json" -H 'content-encoding: gzip' -d x)" 415
is "bad JSON" "$(post /v1/chat/completions '{' | jq -r '.error.code')" invalid_json
is "no body" "$(post /v1/chat/completions '' | jq -r '.error.code')" invalid_json
is "bad field" "$(post /v1/chat/completions "{$user,\"temperature\":3}" | jq -r '.error | "\(.code) \(.param)"')" "decimal_above_max_value temperature"
is "wrong model" "$(post /v1/chat/completions "{$user,\"model\":\"x\"}" -o /dev/null -w '%{http_code}')" 404
is "no slot for an error in a stream" "$(post /v1/chat/completions "{$user,\"stream\":true,\"n\":0}" -o /dev/null -w '%{http_code}')" 400

# -- a body whose end two readers may see at different places
for h in 'content-length: 9' 'transfer-encoding: chunked' 'transfer-encoding: gzip'; do
    head=$(curl -s -i -m $patience "$url/v1/completions" -H "$json" -H 'content-length: 2' -H "$h" -d '{}')
    has "$h and a length" "$head" '"code":"invalid_framing"'
    has "$h and a length: closed" "$head" '^[Cc]onnection: close'
done
is "a coding without an end" "$(code "$url/health" -H 'transfer-encoding: gzip')" 400

# -- request ids
has "a request id" "$(curl -s -i "$url/health")" '^x-request-id: [0-9a-f]\{32\}'
has "the client's" "$(curl -s -i -H 'x-request-id: a.B-1:2_' "$url/nope")" '^x-request-id: a.B-1:2_'
has "not a harmful one" "$(curl -s -i -H 'x-request-id: a b"' "$url/health")" '^x-request-id: [0-9a-f]\{32\}'

# -- large bodies
head -c 17000000 /dev/zero | tr '\0' x >"$dir/big"
is "announced too long" "$(code "$url/v1/chat/completions" -H "$json" --data-binary "@$dir/big")" 413
is "without waiting" "$(code "$url/v1/chat/completions" -H "$json" -H 'Expect:' --data-binary "@$dir/big")" 413
is "chunked too long" "$(code "$url/v1/chat/completions" -H "$json" -H 'Expect:' -H 'transfer-encoding: chunked' --data-binary "@$dir/big")" 413
{ printf '{"max_tokens":4,"x":"'; head -c 3000000 "$dir/big"; printf '",%s}' "$user"; } >"$dir/fits"
is "3 MB that fit" "$(code "$url/v1/chat/completions" -H "$json" --data-binary "@$dir/fits")" 200
is "chunked" "$(code "$url/v1/chat/completions" -H "$json" -H 'transfer-encoding: chunked' --data-binary "@$dir/fits")" 200
{ printf '{"messages":[{"role":"user","content":"'; head -c 2000000 "$dir/big"; printf '"}]}'; } >"$dir/long"
long=$(curl -s "$url/v1/chat/completions" -H "$json" --data-binary "@$dir/long")
is "too long a prompt" "$(echo "$long" | jq -r .error.code)" context_length_exceeded
has "says the limit" "$long" 'maximum context length is [0-9]* tokens'

# -- whole answers
answer=$(post /v1/chat/completions "{$user,\"temperature\":0,\"max_tokens\":200}")
is "an answer" "$(echo "$answer" | jq -r '.object')" chat.completion
is "keys" "$(echo "$answer" | jq -rc '.choices[0] | [has("logprobs"), .message.role, (.message | has("content") and has("refusal")), .index]')" '[true,"assistant",true,0]'
is "greedy is the same again" "$(post /chat/completions "{$user,\"temperature\":0,\"max_tokens\":200}" | jq -c .choices)" "$(echo "$answer" | jq -c .choices)"
is "prompt_tokens is what /tokenize counts" "$(echo "$answer" | jq .usage.prompt_tokens)" "$(post /tokenize "{$user}" | jq .count)"
is "a seed is a seed" "$(post /v1/chat/completions "{$user,\"seed\":5,\"max_tokens\":20}" | jq -c .choices)" "$(post /v1/chat/completions "{$user,\"seed\":5,\"max_tokens\":20}" | jq -c .choices)"
is "n choices" "$(post /v1/chat/completions "{$user,\"n\":3,\"max_tokens\":5,\"ignore_eos\":true}" | jq -c '[.choices[].index], .usage.completion_tokens' | tr '\n' ' ')" "[0,1,2] 15 "
is "max_tokens" "$(post /v1/chat/completions "{$user,\"max_tokens\":3,\"temperature\":0}" | jq -rc '.choices[0].finish_reason, .usage.completion_tokens' | tr '\n' ' ')" "length 3 "
is "ignore_eos" "$(post /v1/completions '{"prompt":"abc","max_tokens":300,"ignore_eos":true}' | jq .usage.completion_tokens)" 300
is "completions" "$(post /v1/completions '{"prompt":["a","b"],"max_tokens":4,"echo":true,"n":2}' | jq -c '[.choices[] | .index, .text[0:1]]')" '[0,"a",1,"a",2,"b",3,"b"]'
is "logprobs" "$(post /v1/completions '{"prompt":"ab","max_tokens":4,"ignore_eos":true,"logprobs":2}' | jq -c '.choices[0].logprobs | [(.tokens|length)==(.token_logprobs|length), (.top_logprobs[0]|length)==2, .text_offset[0]]')" '[true,true,0]'
is "max_tokens 0" "$(post /v1/completions '{"prompt":"ab","max_tokens":0,"echo":true}' | jq -rc '.choices[0] | .text, .finish_reason' | tr '\n' ' ')" "ab length "
is "there and back" "$(post /detokenize "$(post /tokenize '{"prompt":"h\u00e9llo <|end|>"}' | jq -c '{tokens}')" | jq -r .prompt)" "héllo <|end|>"

# -- one connection for many requests
is "keep-alive" "$(curl -sv "$url/health" "$url/nope" "$url/v1/models" 2>&1 | grep -c 'Re-using')" 2

stop
is "ends well" "$rc" 0
grep -q 'ERROR\|runtime error' "$log" && { sed 's/^/# /' "$log"; false; } || true
ok "no complaint of a sanitizer"
finish
