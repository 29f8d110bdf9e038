#!/usr/bin/env bash
# ./dev fuzz [TARGET] [--minutes N]: libFuzzer with AddressSanitizer and UBSan on the parsers.
# Minutes are the fuzzer's own processor time, so that a busy machine does not shorten the search.
# The corpus of a target is tests/fuzz/corpus/TARGET; what is found is kept in build/fuzz/found.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

minutes=1 targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --minutes) minutes=${2:?--minutes N}; shift 2 ;;
    -*) echo "usage: ./dev fuzz [TARGET] [--minutes N]" >&2; exit 2 ;;
    *) targets+=("${1%_fuzz}"); shift ;;
  esac
done
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do
    [ -e "$source" ] || { echo "no targets in tests/fuzz" >&2; exit 2; }
    name=$(basename "$source" _fuzz.cc)
    targets+=("$name")
  done
fi
need_packages build fuzz
build fuzz "${targets[@]/%/_fuzz}"

# cpu_seconds PID: its processor time, user and system; nothing when it has ended.
cpu_seconds() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  set -- ${stat##*) }
  echo $(((${12} + ${13}) / ticks))
}
ticks=$(getconf CLK_TCK)

seconds=$(awk "BEGIN {print int($minutes * 60)}")
found=0 figures=""
for target in "${targets[@]}"; do
  program=$(find build/fuzz -name "${target}_fuzz" -type f -perm -u+x | head -1)
  corpus=tests/fuzz/corpus/$target new=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$new" build/fuzz/found
  step "$target for $seconds s of processor time"
  rc=0 used=0
  # New inputs go to the first folder; the kept corpus is read only.
  "$program" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target-" "$new" $([ -d "$corpus" ] && echo "$corpus") \
    >"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null' EXIT
  while now=$(cpu_seconds $pid); do
    used=$now
    [ "$used" -lt "$seconds" ] || kill -USR1 $pid 2>/dev/null || true  # ends it in order
    sleep 0.5
  done
  wait $pid || rc=$?
  trap - EXIT
  runs=$(awk '/stat::number_of_executed_units/ {print $2}' "$log")
  figures+=$(printf '%-16s %6s s %12s runs  %s' "$target" "$used" "${runs:-?}" \
    "$([ $rc = 0 ] && echo 'nothing found' || echo "FOUND: $log")")$'\n'
  [ $rc = 0 ] || { found=1; tail -25 "$log" >&2; }
done
printf '\n%s' "$figures"
exit $found
