#!/bin/sh
# Clients that leave, in every phase and both forms: the engine stops, every gauge falls to zero.
. "${srcdir:-.}/tests/e2e/lib.sh"

long='"max_tokens":100000,"ignore_eos":true'
prompt=$(head -c 700 /dev/zero | tr '\0' 'q')

# leave BODY: a client that is killed as soon as the daemon has its request
leave() {
    : >"$dir/out"
    curl -sN -m $patience -H "$json" "$url/v1/completions" -d "$1" >"$dir/out" & client=$!
    until_is "^$2\$" metric 'trnd_http_requests_in_flight' >/dev/null
    [ -z "$3" ] || until_is "$3" cat "$dir/out" >/dev/null
    kill -9 $client
    wait $client 2>/dev/null
}
phases() { # of the clients that left: body queue prefill decode
    curl -s "$url/metrics" | sed -n 's/^trnd_http_disconnects_total{.*} //p' | tr '\n' ' '
}
gauges() {
    echo "$(metric trnd_http_requests_in_flight) $(metric 'vllm:num_requests_running\{.*\}') $(metric 'vllm:num_requests_waiting\{.*\}')"
}

for stream in false true; do
    # -- decode
    start --plan 1x2 --scheduler.max_seqs 1
    body="{\"prompt\":\"a\",$long,\"stream\":$stream}"
    if [ $stream = true ]; then leave "$body" 1 'data: '; else
        curl -sN -m $patience -H "$json" "$url/v1/completions" -d "$body" >/dev/null & client=$!
        # the third is sampled only after the first was delivered
        until_is '^[3-9]\|^[1-9][0-9]' metric 'vllm:generation_tokens_total\{.*\}' >/dev/null
        kill -9 $client
        wait $client 2>/dev/null
    fi
    is "decode, stream $stream: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
    is "decode, stream $stream: counted" "$(phases)" "0 0 0 1 "
    is "decode, stream $stream: aborted" "$(metric 'vllm:request_success_total\{.*finished_reason="abort"\}')" 1

    # -- queue: behind one that runs
    : >"$dir/first"
    curl -sN -m $patience -H "$json" "$url/v1/completions" -d "{\"prompt\":\"a\",$long,\"stream\":true}" >"$dir/first" & clients=$!
    until_is 'data: ' cat "$dir/first" >/dev/null
    leave "{\"prompt\":\"b\",\"max_tokens\":5,\"stream\":$stream}" 2 ''
    is "queue, stream $stream: only the first is left" "$(until_is '^1 1 0$' gauges)" "1 1 0"
    is "queue, stream $stream: counted" "$(phases)" "0 1 0 1 "
    kill -9 "$clients"
    wait "$clients" 2>/dev/null
    clients=''
    is "queue, stream $stream: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
    stop

    # -- prefill: one token a step
    start --plan 1x2 --scheduler.chunk_tokens 1 --scheduler.step_tokens 1 --scheduler.max_seqs 1
    leave "{\"prompt\":\"$prompt\",$long,\"stream\":$stream}" 1 ''
    is "prefill, stream $stream: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
    is "prefill, stream $stream: no token was made" "$(metric 'vllm:generation_tokens_total\{.*\}')" 0
    is "prefill, stream $stream: KV is free" "$(metric 'vllm:kv_cache_usage_perc\{.*\}')" 0
    is "the next is served" "$(post /v1/completions '{"prompt":"a","max_tokens":2,"ignore_eos":true}' | jq .usage.completion_tokens)" 2
    stop
    is "ends well" "$rc" 0
done

# -- many whose end comes together with the last bytes of half a body
start
kill -STOP "$pid"
halves=''
for _ in $(seq 150); do
    printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"a":' |
        curl -sN -m 3 "telnet://${url#http://}" >/dev/null &
    halves="$halves $!"
done
# shellcheck disable=SC2086 # a list
wait $halves
kill -CONT "$pid"
left='trnd_http_requests_total\{handler=".v1.completions",status="4xx"\}'
is "half a body: its end is seen" "$(until_is '^150$' metric "$left")" 150
is "half a body: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
stop
is "ends well" "$rc" 0

# -- a client that does not read: its stream is cut off before it fills the memory
start --clock host --plan 8x2
curl -sN -m 100 --limit-rate 10k -H "$json" "$url/v1/completions" \
    -d "{\"prompt\":\"a\",$long,\"stream\":true,\"logprobs\":20,\"n\":8}" >/dev/null & clients=$!
is "a slow reader is cut off" "$(until_is '^1$' metric trnd_http_slow_readers_total)" 1
is "a slow reader: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
kill -9 "$clients" 2>/dev/null
wait "$clients" 2>/dev/null
clients=''
stop
is "ends well" "$rc" 0

# -- a crowd that leaves at once
start
crowd=''
for i in $(seq 30); do
    curl -sN -m $patience -H "$json" "$url/v1/completions" -d "{\"prompt\":\"a$i\",$long,\"stream\":true}" >/dev/null & crowd="$crowd $!"
done
clients=$crowd
until_is '^30$' metric 'trnd_http_requests_in_flight' >/dev/null
for p in $crowd; do kill -9 "$p"; done
for p in $crowd; do wait "$p" 2>/dev/null; done
clients=''
is "a crowd: gauges" "$(until_is '^0 0 0$' gauges)" "0 0 0"
is "a crowd: each is counted" "$(metric 'vllm:request_success_total\{.*finished_reason="abort"\}')" 30
stop
is "ends well" "$rc" 0
finish
