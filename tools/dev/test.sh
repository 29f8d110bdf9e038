#!/usr/bin/env bash
# ./dev test [--repeat N] [SUITE...]: installs what the suites need, builds, runs them and ends with
# one line: "N passed, N failed", with ", N skipped" when some were. --repeat runs each suite N
# times, to find what fails now and then.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
source tools/dev/common.sh

repeat=1
if [ "${1:-}" = --repeat ]; then
  repeat=${2:?--repeat N}
  shift 2
fi
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

# run NAME COMMAND...: a runner that writes $results/NAME.xml, or fails. In a repetition both have
# its number; "{}" in an argument stands for the name with it.
run() {
  local name=$1 round started=$SECONDS rc failed=0
  shift
  for ((round = 1; round <= repeat; round++)); do
    local this=$name
    [ "$repeat" = 1 ] || this=$name-$round
    step "$this"
    rc=0
    "${@//\{\}/$this}" || rc=$?
    echo "$rc" >"$results/$this.rc"
    [ $rc = 0 ] || failed=$((failed + 1))
  done
  printf '%s: %s in %d s\n' "$name" "$([ $failed = 0 ] && echo ok || echo "$failed failed")" \
    $((SECONDS - started)) >&2
}

gtest() { # gtest NAME PROGRAM [ARGUMENTS]
  local name=$1
  shift
  run "$name" "$@" --gtest_brief=1 "--gtest_output=xml:$results/{}.xml"
}

pytest() { # pytest NAME ARGUMENTS...
  local name=$1
  shift
  run "$name" $python -m pytest -q -p no:cacheprovider "--junitxml=$results/{}.xml" "$@"
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

unit() { gtest "unit$2" "build/$1/unit_tests"; }  # unit PRESET SUFFIX
simulation() {                                    # simulation PRESET SUFFIX SEEDS
  gtest "sim$2" "build/$1/tests/sim_tests"
  run "seeds$2" "build/$1/tests/sim" --seeds "$3"
}

need_packages build
if wants unit || wants contract || wants e2e || wants sanitize; then need_packages test; fi

if wants unit || wants contract || wants sim || wants e2e; then
  build release
  if wants unit; then
    run rules python3 tools/tidy.py
    pytest rig tests/rig
    unit release ""
  fi
  if wants contract; then contract release ""; fi
  if wants sim; then simulation release "" 2000; fi
fi
if wants e2e && ls tests/e2e/*_test.py >/dev/null 2>&1; then
  install_npm engines/tiny
  install_npm tests/e2e/sdk
  BERTH_TEST_NODE=$(node20) pytest e2e tests/e2e
fi
# Only what is run is built: these builds take the time.
if wants sanitize; then
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # Tests fork the agent and the shim, which start threads of their own.
  export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0
  build asan unit_tests contract_tests sim_tests sim
  unit asan -asan
  contract asan -asan
  simulation asan -asan 100
  build tsan unit_tests contract_tests  # the simulation has one thread
  unit tsan -tsan
  contract tsan -tsan
fi
python3 tools/dev/tally.py "$results"
