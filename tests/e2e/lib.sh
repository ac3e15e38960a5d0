# lib.sh - for the scripts beside it: starts ./trnd on a free port of the loopback, talks to it, and
# counts what was right. Every process that is started is ended by its pid.
# shellcheck shell=sh disable=SC2034

failed=0 checks=0 pid='' url='' clients=''
dir=$(mktemp -d)
for tool in curl jq; do
    command -v $tool >/dev/null || { echo "1..0 # SKIP no $tool"; exit 77; }
done
json='content-type: application/json'
user='"messages":[{"role":"user","content":"What is 27 + 48?"}]'
# under a sanitizer, on a loaded host, everything takes its time
patience=60

end() {
    for p in $clients $pid; do kill -9 "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM

# start ARGS: the daemon, ready; sets pid, url and log.
start() {
    log=$dir/log.$checks
    ./trnd serve --port 0 "$@" 2>"$log" &
    pid=$!
    url=$(until_is '[^ ]' sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$log")
    [ -n "$url" ] && until_is '"ok"' curl -s "$url/readyz" >/dev/null && return
    echo "# trnd does not start:"
    sed 's/^/# /' "$log"
    exit 1
}

# stop: asks it to end; sets rc to its exit code.
stop() {
    kill -TERM "$pid"
    wait "$pid"
    rc=$?
    pid=''
}

# until_is PATTERN COMMAND...: runs it until its output has the pattern; prints that.
until_is() {
    pattern=$1 tries=$((patience * 20))
    shift
    while [ $tries -gt 0 ]; do
        out=$("$@" 2>/dev/null)
        echo "$out" | grep -q "$pattern" && { echo "$out"; return 0; }
        sleep 0.05
        tries=$((tries - 1))
    done
    echo "# waited in vain for '$pattern' from: $*" >&2
    return 1
}

ok() { # ok NAME: the status of what ran before decides
    status=$?
    checks=$((checks + 1))
    if [ $status = 0 ]; then echo "ok $checks - $1"; else
        echo "not ok $checks - $1"
        failed=$((failed + 1))
    fi
}
is() { # is NAME GOT WANT
    [ "$2" = "$3" ] || { echo "# got: $2"; echo "# want: $3"; false; }
    ok "$1"
}
has() { # has NAME TEXT PATTERN
    printf '%s\n' "$2" | grep -q -e "$3" || { printf '%s\n' "$2" | head -20 | sed 's/^/# /'; echo "# want: $3"; false; }
    ok "$1"
}

post() { # post PATH BODY [CURL-ARGS]: the answer's body
    path=$1 body=$2
    shift 2
    curl -s -m $patience -H "$json" "$@" "$url$path" -d "$body"
}
code() { # code CURL-ARGS: only the status
    curl -s -m $patience -o /dev/null -w '%{http_code}' "$@"
}
metric() { # metric 'ERE of the series': its value
    curl -s "$url/metrics" | sed -nE "s/^$1 //p"
}

finish() {
    echo "1..$checks"
    exit $((failed > 0))
}
