#!/bin/sh
# Start and stop: what cannot start says why; SIGTERM refuses new work and lets the old end.
. "${srcdir:-.}/tests/e2e/lib.sh"

# -- what cannot start: exit code 1 and one line
refuse() { # refuse NAME PATTERN ARGS
    name=$1 pattern=$2
    shift 2
    timeout $patience ./trnd serve "$@" >"$dir/refuse" 2>&1
    is "$name: exit code" $? 1
    has "$name: says why" "$(cat "$dir/refuse")" "$pattern"
}
refuse "unknown option" 'nonsense' --nonsense
refuse "bad value" '99999' --port 99999
refuse "no such model" 'model.path.*/no/such/model' --port 0 --model /no/such/model
refuse "no such machine" 'machine.name.*abacus' --port 0 --machine abacus
refuse "plan too big" 'machine.plan' --port 0 --plan 73x2
start
refuse "port in use" 'cannot listen' --port "${url##*:}"
is "--version" "$(./trnd --version | cut -d' ' -f1)" trnd
./trnd --check-config >/dev/null
ok "--check-config"
has "--print-config" "$(./trnd --print-config --port 1234)" '1234'
has "inspect" "$(./trnd inspect gpt-oss-120b --plan 72x2 --program)" 'experts_up'
has "inspect: a step" "$(./trnd inspect gpt-oss-120b --program --sequences 64 --context 9)" 'at 64 sequences'
has "inspect: no step" "$(./trnd inspect gpt-oss-120b --program --rows 1x 2>&1)" '"1x" is not a whole number'
stop
is "stops at once when idle" "$rc" 0

# -- streams in flight end by themselves; new work is refused
start --plan 1x2 --server.drain_timeout 60s
# in the background only: exec, so that the pid is curl's
ask() { exec curl -sN -m $patience -H "$json" "$url/v1/completions" -d "$1"; }
ask '{"prompt":"a","max_tokens":900,"ignore_eos":true,"stream":true}' >"$dir/a" & a=$!
ask '{"prompt":"b","max_tokens":900,"ignore_eos":true}' >"$dir/b" & b=$!
clients="$a $b"
until_is '^2$' metric 'vllm:num_requests_running\{.*\}' >/dev/null
until_is 'data: ' cat "$dir/a" >/dev/null
kill -TERM "$pid"
until_is 503 code "$url/readyz" >/dev/null
ok "not ready any more"
refused=$(curl -si -m $patience -H "$json" "$url/v1/completions" -d '{"prompt":"c"}')
has "new work is refused" "$refused" '^HTTP/1.1 503'
has "with a time to come back" "$refused" '^[Rr]etry-[Aa]fter: [0-9]'
has "and a closed connection" "$refused" '^[Cc]onnection: close'
has "and a code" "$refused" '"code":"draining"'
is "it lives meanwhile" "$(code "$url/livez")" 200
wait $a && wait $b
ok "both were answered"
wait "$pid"
is "exit code" $? 0
pid='' clients=''
is "the stream is whole" "$(sed -n 's/^data: {/{/p' "$dir/a" | jq -r '.choices[].finish_reason // empty')" length
is "the answer is whole" "$(jq .usage.completion_tokens "$dir/b")" 900

# -- a terminal that closes, or who takes it for a reload, cuts no stream; under nohup it is nothing
start --plan 1x2
: >"$dir/a"
ask '{"prompt":"a","max_tokens":300,"ignore_eos":true,"stream":true}' >"$dir/a" & a=$!
clients=$a
until_is 'data: ' cat "$dir/a" >/dev/null
nohup=$(grep -c '^SigIgn:.*[13579bdf]$' "/proc/$pid/status")
kill -HUP "$pid"
wait $a
clients=''
is "SIGHUP: the stream is whole" "$(grep -v '^$' "$dir/a" | tail -1)" 'data: [DONE]'
if [ "$nohup" = 1 ]; then stop; else
    wait "$pid"
    rc=$?
    pid=''
fi
is "SIGHUP: exit code" "$rc" 0

# -- those that take too long hear why
start --server.drain_timeout 0.5s --plan 1x2
: >"$dir/a"
ask '{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":true}' >"$dir/a" & a=$!
ask '{"prompt":"b","max_tokens":100000,"ignore_eos":true}' >"$dir/b" & b=$!
clients="$a $b"
until_is 'data: ' cat "$dir/a" >/dev/null
until_is '^2$' metric 'trnd_http_requests_in_flight' >/dev/null
stop
is "exit code after the timeout" "$rc" 0
wait $a && wait $b
ok "both connections ended in order"
clients=''
is "an error frame" "$(sed -n 's/^data: {"error/{"error/p' "$dir/a" | jq -r .error.code)" draining
is "then [DONE]" "$(grep -v '^$' "$dir/a" | tail -1)" 'data: [DONE]'
is "an error object" "$(jq -r .error.code "$dir/b")" draining

# -- all connections taken, then all gone at once: it listens again
start --server.max_connections 8
sockets() { find "/proc/$pid/fd" -lname 'socket:*' | wc -l; }
before=$(sockets)
taken() { [ "$(sockets)" -ge $((before + 7)) ] && echo yes; }
mkfifo "$dir/silent"
exec 9<>"$dir/silent"
clients=''
for _ in 1 2 3 4 5 6 7 8 9 10 11; do
    curl -sN "telnet://${url#http://}" <&9 >/dev/null & clients="$clients $!"
done
is "every connection is taken" "$(until_is yes taken)" yes
kill -STOP "$pid"
for p in $clients; do kill -9 "$p"; done
for p in $clients; do wait "$p" 2>/dev/null; done
clients=''
kill -CONT "$pid"
is "it listens again" "$(curl -s -m 5 --retry 5 --retry-connrefused "$url/livez" | jq -r .status)" ok
stop
exec 9>&-

# -- a full queue is an answer
start --plan 1x2 --scheduler.max_seqs 1 --scheduler.max_waiting 1
: >"$dir/a"
ask '{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":true}' >"$dir/a" & a=$!
until_is 'data: ' cat "$dir/a" >/dev/null
ask '{"prompt":"b","max_tokens":100000,"ignore_eos":true}' >"$dir/b" & b=$!
clients="$a $b"
until_is '^2$' metric 'trnd_http_requests_in_flight' >/dev/null
full=$(curl -si -m $patience -H "$json" "$url/v1/completions" -d '{"prompt":"c","stream":true}')
has "429 for a stream too" "$full" '^HTTP/1.1 429'
has "429 says when to come back" "$full" '^[Rr]etry-[Aa]fter: 1'
has "429 has a code" "$full" '"code":"queue_full"'
is "n that does not fit leaves nothing behind" "$(post /v1/completions '{"prompt":"c","n":5}' | jq -r .error.code)" queue_full
is "still two" "$(until_is '^2$' metric trnd_http_requests_in_flight)" 2
kill -9 $a $b
wait $a $b 2>/dev/null
clients=''
until_is '^0$' metric 'vllm:num_requests_running\{.*\}' >/dev/null
is "served again" "$(post /v1/completions '{"prompt":"c","max_tokens":2,"ignore_eos":true}' | jq .usage.completion_tokens)" 2
stop
is "ends well" "$rc" 0
finish
