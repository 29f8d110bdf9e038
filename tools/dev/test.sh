#!/usr/bin/env bash
# ./dev test [SUITE...]: installs what the suites need, builds, runs them and ends with one line:
# "N passed, N failed", with ", N skipped" when some were.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

suites=("$@")
[ $# -gt 0 ] || suites=(unit contract sim e2e)
for suite in "${suites[@]}"; do
  case "$suite" in
    unit | contract | sim | e2e | sanitize) ;;
    *) echo "no suite $suite; there are unit contract sim e2e sanitize" >&2; exit 2 ;;
  esac
done
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }

python=/usr/bin/python3 # the one that Debian's pytest belongs to
results=$(mktemp -d /tmp/berth-test.XXXXXX)
clusters=()
stop() {
  for cluster in "${clusters[@]}"; do
    $python tests/rig/slurm.py down "$cluster" || true
    rm -rf "$cluster"
  done
  rm -rf "$results"
}
trap stop EXIT

# run NAME COMMAND...: a runner that writes $results/NAME.xml, or fails.
run() {
  local name=$1 started=$SECONDS rc=0
  shift
  step "$name"
  "$@" || rc=$?
  echo "$rc" >"$results/$name.rc"
  printf '%s: %s in %d s\n' "$name" "$([ $rc = 0 ] && echo ok || echo "status $rc")" \
    $((SECONDS - started)) >&2
}

gtest() { # gtest NAME PROGRAM [ARGUMENTS]
  local name=$1
  shift
  run "$name" "$@" --gtest_brief=1 "--gtest_output=xml:$results/$name.xml"
}

pytest() { # pytest NAME ARGUMENTS...
  local name=$1
  shift
  run "$name" $python -m pytest -q -p no:cacheprovider "--junitxml=$results/$name.xml" "$@"
}

# start_cluster [OPTIONS]: a real cluster with accounting, for the contract tests. Sets `conf` to
# its slurm.conf and `bin` to the folder of its commands ("": the system's).
start_cluster() {
  local dir
  dir=$(mktemp -d /tmp/berth-slurm.XXXXXX)
  chmod 755 "$dir"
  clusters+=("$dir")
  step "a Slurm cluster in $dir $*"
  $python tests/rig/slurm.py up "$dir" --accounting "$@" >&2
  conf=$dir/etc/slurm.conf bin=""
}

on_cluster() { # on_cluster NAME PROGRAM [ARGUMENTS]
  if [ -n "$conf" ]; then export BERTH_TEST_SLURM_CONF=$conf BERTH_TEST_SLURM_BIN=$bin; fi
  gtest "$@"
  unset BERTH_TEST_SLURM_CONF BERTH_TEST_SLURM_BIN
}

# contract PRESET SUFFIX: on the system's Slurm and, for the release build, on Slurm 24.11 where
# that can be had. Without root the cases that need a cluster are skipped.
conf=${BERTH_TEST_SLURM_CONF:-} bin=${BERTH_TEST_SLURM_BIN:-}
contract() {
  local program=build/$1/tests/contract_tests suffix=$2 trixie
  if [ -z "$conf" ] && [ "$(id -u)" = 0 ]; then start_cluster; fi
  on_cluster "contract$suffix" "$program"
  [ -z "$suffix" ] && [ "$(id -u)" = 0 ] || return 0
  if trixie=$(tools/dev/trixie); then
    local system_conf=$conf system_bin=$bin
    start_cluster --root "$trixie"
    bin=$trixie/berth
    on_cluster contract-24.11 "$program" '--gtest_filter=*slurm*'
    conf=$system_conf bin=$system_bin
  fi
}

# Programs of one preset, for the suites that run under sanitizers too.
programs() { # programs PRESET SEEDS
  local preset=$1 seeds=$2 dir=build/$1 suffix=""
  [ "$preset" = release ] || suffix="-$preset"
  if wants unit || [ -n "$suffix" ]; then gtest "unit$suffix" "$dir/unit_tests"; fi
  if [ -x "$dir/tests/contract_tests" ] && { wants contract || [ -n "$suffix" ]; }; then
    contract "$preset" "$suffix"
  fi
  if wants sim || [ -n "$suffix" ]; then
    [ ! -x "$dir/tests/sim_tests" ] || gtest "sim$suffix" "$dir/tests/sim_tests"
    [ ! -x "$dir/tests/sim" ] || run "seeds$suffix" "$dir/tests/sim" --seeds "$seeds"
  fi
}

need_packages build
if wants unit || wants contract || wants e2e || wants sanitize; then need_packages test; fi

if wants unit || wants contract || wants sim || wants e2e; then
  build release
  if wants unit; then
    run rules python3 tools/tidy.py
    pytest rig tests/rig
  fi
  programs release 2000
fi
if wants e2e && ls tests/e2e/*_test.py >/dev/null 2>&1; then
  install_npm engines/tiny
  install_npm tests/e2e/sdk
  BERTH_TEST_NODE=$(node20) pytest e2e tests/e2e
fi
if wants sanitize; then
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=halt_on_error=1
  for preset in asan tsan; do
    build $preset
    programs $preset 100
  done
fi
python3 tools/dev/tally.py "$results"
