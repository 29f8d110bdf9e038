#!/usr/bin/env bash
# ./dev bench [NAME]: runs bench/NAME/run.py, or every benchmark. Each prints its table last and
# exits non-zero when a ratio it promises does not hold.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

names=()
if [ $# -gt 0 ] && [[ "$1" != -* ]]; then
  names=("$1")
  shift
  [ -f "bench/${names[0]}/run.py" ] || { echo "no benchmark ${names[0]} in bench/" >&2; exit 2; }
else
  for script in bench/*/run.py; do
    [ -e "$script" ] || { echo "./dev bench: not there yet (no benchmark in bench/)" >&2; exit 2; }
    names+=("$(basename "$(dirname "$script")")")
  done
fi
need_packages build bench
build release
rc=0
for name in "${names[@]}"; do
  step "$name"
  python3 "bench/$name/run.py" "$@" || rc=1
done
exit $rc
