#!/bin/sh
# Streams: their order, their sum, their end.
. "${srcdir:-.}/tests/e2e/lib.sh"
start --server.keepalive 0.3s

frames() { sed -n 's/^data: //p' "$1" | grep -v '^\[DONE\]'; }
joined() { frames "$1" | jq -rj ".choices[]?.delta.$2 // empty"; }

ask="$user,\"temperature\":0,\"max_tokens\":300"
post /v1/chat/completions "{$ask}" >"$dir/whole"
post /v1/chat/completions "{$ask,\"stream\":true,\"stream_options\":{\"include_usage\":true}}" -N -D "$dir/head" >"$dir/stream"
has "status" "$(cat "$dir/head")" '^HTTP/1.1 200'
has "type" "$(cat "$dir/head")" '^[Cc]ontent-[Tt]ype: text/event-stream; charset=utf-8'
has "no buffering" "$(cat "$dir/head")" '^x-accel-buffering: no'
is "content" "$(joined "$dir/stream" content)" "$(jq -r '.choices[0].message.content' "$dir/whole")"
is "reasoning" "$(joined "$dir/stream" reasoning)" "$(jq -r '.choices[0].message.reasoning' "$dir/whole")"
is "reasoning_content" "$(joined "$dir/stream" reasoning_content)" "$(joined "$dir/stream" reasoning)"
is "usage" "$(frames "$dir/stream" | tail -1 | jq -c '[.choices, .usage.completion_tokens]')" "[[],$(jq .usage.completion_tokens "$dir/whole")]"
is "usage once" "$(frames "$dir/stream" | jq -c 'select(.usage)' | wc -l)" 1
is "role first" "$(frames "$dir/stream" | head -1 | jq -c '.choices[0].delta')" '{"role":"assistant","content":""}'
is "one finish reason" "$(frames "$dir/stream" | jq -r '.choices[]?.finish_reason // empty')" "$(jq -r '.choices[0].finish_reason' "$dir/whole")"
is "last line" "$(grep -v '^$' "$dir/stream" | tail -1)" 'data: [DONE]'
is "one id" "$(frames "$dir/stream" | jq -r '"\(.id) \(.created) \(.object)"' | sort -u | wc -l)" 1
is "lines are data, comments or empty" "$(grep -cvE '^(data: .*|: .*|)$' "$dir/stream")" 0

post /v1/chat/completions "{$ask,\"n\":3,\"stream\":true}" -N >"$dir/three"
is "three choices" "$(frames "$dir/three" | jq -c '.choices[] | select(.finish_reason) | .index' | sort | tr '\n' ' ')" "0 1 2 "
is "no usage unasked" "$(frames "$dir/three" | jq -c 'select(.usage)' | wc -l)" 0

text='"prompt":"abc","max_tokens":40,"temperature":0,"ignore_eos":true'
is "completions" "$(post /v1/completions "{$text,\"stream\":true}" -N | sed -n 's/^data: {/{/p' | jq -rj '.choices[].text')" "$(post /v1/completions "{$text}" | jq -r '.choices[0].text')"
is "continuous usage" "$(post /v1/completions "{$text,\"stream\":true,\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}}" -N | sed -n 's/^data: {/{/p' | jq -c 'select(.usage|not)' | wc -l)" 0

# a client of HTTP/1.0 gets no chunks and an end
is "HTTP/1.0" "$(post /v1/completions "{$text,\"stream\":true}" -N -0 | tail -2 | head -1)" 'data: [DONE]'

# ten at once
streams=''
for i in 1 2 3 4 5 6 7 8 9 10; do
    post /v1/chat/completions "{$ask,\"stream\":true}" -N >"$dir/s$i" & streams="$streams $!"
done
for p in $streams; do wait "$p"; done
bad=0
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(joined "$dir/s$i" content)" = "$(joined "$dir/stream" content)" ] || bad=$((bad + 1))
    [ "$(grep -v '^$' "$dir/s$i" | tail -1)" = 'data: [DONE]' ] || bad=$((bad + 1))
done
is "ten at once say the same" $bad 0
stop
is "ends well" "$rc" 0

# -- while nothing is said, comments; the head does not wait for the first token
start --server.keepalive 0.2s --plan 1x2 --scheduler.max_seqs 1
post /v1/completions '{"prompt":"a","max_tokens":100000,"ignore_eos":true}' >/dev/null & clients=$!
until_is '^1$' metric 'trnd_http_requests_in_flight' >/dev/null
curl -sN -m $patience -H "$json" "$url/v1/chat/completions" -d "{$user,\"stream\":true}" >"$dir/waits" & clients="$clients $!"
until_is 'keep-alive' cat "$dir/waits" >/dev/null
ok "keep-alive comments in the queue"
kill -TERM "$pid"
until_is 503 code "$url/readyz" >/dev/null # or both signals are one
kill -TERM "$pid"
wait "$pid"
is "a second signal ends it" $? 0
pid=''
until_is 'DONE' cat "$dir/waits" >/dev/null
is "what waits hears why" "$(sed -n 's/^data: {/{/p' "$dir/waits" | jq -r '.error.code')" draining
is "and the stream ends" "$(grep -v '^$' "$dir/waits" | tail -1)" 'data: [DONE]'
finish
