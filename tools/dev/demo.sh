#!/usr/bin/env bash
# ./dev demo: builds Berth, serves a model on this machine with the local scheduler, shows an
# answer as it streams, and leaves it running. Everything it makes is in .demo/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

here=$PWD/.demo
berth=$PWD/build/release/berth
model="" port=7270 stop=""
while [ $# -gt 0 ]; do
  case "$1" in
    --model) model=$(realpath "${2:?--model FILE.gguf}"); shift 2 ;;
    --port) port=${2:?--port N}; shift 2 ;;
    --stop) stop=1; shift ;;
    *) echo "usage: ./dev demo [--model FILE.gguf] [--port N] | --stop" >&2; exit 2 ;;
  esac
done

# The pid of the demo's daemon, when it runs.
daemon() {
  local pid
  pid=$(cat "$here/serve.pid" 2>/dev/null) || return 1
  grep -qz -- "^$here/config.yaml$" "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}

# `berth` as a client of the demo.
client() {
  BERTH_URL=http://$(cat "$here/state/address") BERTH_KEY=$(cat "$here/key") "$berth" "$@"
}

# `berth` as the daemon's own user, by the socket that only this user can open.
operator() { BERTH_URL=unix:$here/state/berth.sock "$berth" "$@"; }

wait_for() { # wait_for SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then
      echo "waited in vain for $what; the daemon's last lines:" >&2
      tail -20 "$here/serve.log" >&2
      return 1
    fi
    sleep 0.1
  done
}

gone() { ! daemon >/dev/null; }

stop_demo() {
  local pid
  if ! pid=$(daemon); then echo "the demo does not run"; return 0; fi
  step "stopping the service"
  client stop demo >&2 || true
  wait_for 40 "the replica to end" no_replica || true
  kill "$pid"
  wait_for 30 "the daemon to end" gone || kill -KILL "$pid"
  rm -f "$here/serve.pid"
  echo "stopped; what it made is in .demo/"
}

no_replica() { ! client ps demo | grep -qE 'ready|loading|draining|pending|submitted'; }

start_daemon() {
  mkdir -p "$here/state"
  chmod 700 "$here/state"
  cat >"$here/config.yaml" <<YAML
state_dir: $here/state
listen: 127.0.0.1:$port
scheduler: local
YAML
  [ "$(id -u)" != 0 ] || echo "allow_root: ./dev demo was started by root" >>"$here/config.yaml"
  if daemon >/dev/null; then echo "berth serve runs already" >&2; return; fi
  step "berth serve"
  rm -f "$here/state/address"
  setsid "$berth" serve --config "$here/config.yaml" >>"$here/serve.log" 2>&1 </dev/null &
  echo $! >"$here/serve.pid"
  wait_for 20 "berth serve" test -s "$here/state/address"
}

# One JSON string for YAML.
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$1"; }

write_service() {
  local delay=0
  [ -n "$model" ] || { model=$here/counter.gguf delay=40; }
  cat >"$here/service.yaml" <<YAML
name: demo
engine: command
model: $(quoted "$model")
command:
  - $(quoted "$(command -v node)")
  - $(quoted "$PWD/engines/tiny/serve.mjs")
  - --model={model}
  - --uds={uds}
  - --served-model-name=demo
  - --threads=$(($(nproc) > 2 ? $(nproc) / 2 : 1))
  - --token-delay-ms=$delay
replicas: 1
YAML
}

[ -z "$stop" ] || { stop_demo; exit; }
if [ -n "$model" ] && [ "$(head -c 4 "$model")" != GGUF ]; then
  echo "$model: not a GGUF file" >&2
  exit 2
fi

need_packages build demo
build release berth
install_npm engines/tiny
mkdir -p "$here"
counts=""
if [ -z "$model" ]; then
  counts=$'This tiny model only counts. Serve your own: ./dev demo --model my.gguf\n\n'
  # Never rewritten in place: a running engine has the file mapped.
  if [ ! "$here/counter.gguf" -nt engines/tiny/gguf.py ]; then
    python3 engines/tiny/gguf.py "$here/counter.gguf.new" >&2
    mv "$here/counter.gguf.new" "$here/counter.gguf"
  fi
fi
write_service
start_daemon
if [ ! -s "$here/key" ]; then
  (umask 077; operator key create demo >"$here/key")
fi
url=http://$(cat "$here/state/address")

step "berth apply -f .demo/service.yaml"
client apply -f "$here/service.yaml"
client wait demo --timeout 2m
name=$(client ps demo --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["name"])')

step "berth chat $name 'count from 41'"
client chat "$name" "count from 41" --max-tokens 30

messages='[{"role": "user", "content": "count from 7"}]'
cat <<TEXT

It runs, and goes on running:

  address  $url
  key      $(cat "$here/key")
  stop     ./dev demo --stop

${counts}Three things to try next:

  export BERTH_URL=$url BERTH_KEY=$(cat "$here/key")

  curl -N \$BERTH_URL/v1/chat/completions -H "Authorization: Bearer \$BERTH_KEY" \\
    -H 'Content-Type: application/json' \\
    -d '{"model": "$name", "stream": true, "messages": $messages}'

  // npm install openai
  new OpenAI({baseURL: '$url/v1', apiKey: process.env.BERTH_KEY})

  build/release/berth ps
TEXT
