#!/usr/bin/env bash
# ./dev bench [NAME]: runs bench/NAME/run.py, or every benchmark; micro is Google Benchmark over
# the scanners. Each prints its table last and exits non-zero when a ratio it promises does not
# hold.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

names=() all=()
for path in bench/*/; do
  name=$(basename "$path")
  if [ -f "$path/run.py" ] || [ "$name" = micro ]; then all+=("$name"); fi
done
if [ $# -gt 0 ] && [[ "$1" != -* ]]; then
  names=("$1")
  shift
  if [[ " ${all[*]} " != *" ${names[0]} "* ]]; then
    echo "no benchmark ${names[0]}; there are: ${all[*]}" >&2
    exit 2
  fi
else
  names=("${all[@]}")
fi
need_packages build bench
build release
rc=0
for name in "${names[@]}"; do
  step "$name"
  if [ "$name" = micro ]; then
    build release bench_micro && build/release/bench/bench_micro "$@" || rc=1
  else
    python3 "bench/$name/run.py" "$@" || rc=1
  fi
done
exit $rc
