#!/bin/sh
# Installs the Debian packages that are missing for a task, after saying which:
#   tools/install_deps.sh build    compile, run and test
#   tools/install_deps.sh fuzz     also the fuzz targets
#   tools/install_deps.sh lint     also formatting and the rooms' lint
#   tools/install_deps.sh clients  also what the tests of the server with public clients use
# Does nothing, quickly, when everything is there. Uses sudo when not root.
set -eu

packages="g++ cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev libpcre2-dev
  libutf8proc-dev libedit-dev libcpp-httplib-dev libssl-dev libgtest-dev libbenchmark-dev python3"
for task in "$@"; do
  case "$task" in
    build) ;;
    fuzz) packages="$packages clang-14 libclang-rt-14-dev" ;;
    lint) packages="$packages clang-format-14" ;;
    clients) packages="$packages nodejs npm curl prometheus chromium" ;;
    *)
      echo "install_deps.sh: no task '$task'; tasks are build, fuzz, lint and clients" >&2
      exit 2
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "Not a Debian system. Please see to it that these, or what they are called here, are" \
    "installed:" $packages >&2
  exit 0
fi

# Packages that are tools count as there when their command is, wherever it comes from.
has_command() {
  case "$1" in
    g++ | cmake | ccache | pkg-config | python3 | npm | curl) command -v "$1" >/dev/null ;;
    nodejs) command -v node >/dev/null ;;
    prometheus) command -v promtool >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    chromium) command -v chromium >/dev/null || command -v google-chrome >/dev/null ;;
    clang-14) command -v clang++-14 >/dev/null ;;
    clang-format-14) command -v clang-format-14 >/dev/null ;;
    *) return 1 ;;
  esac
}

installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' $packages 2>/dev/null || true)"
missing=""
for package in $packages; do
  case "$installed" in
    *" installed:$package "*) ;;
    *) has_command "$package" || missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  sudo="sudo"
  if ! command -v sudo >/dev/null; then
    echo "Missing packages:$missing" >&2
    echo "There is no sudo here; as root, run: apt-get install$missing" >&2
    exit 1
  fi
fi
echo "Installing Debian packages:$missing"
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
  </dev/null >/dev/null || {
  echo "apt-get could not install them; see above" >&2
  exit 1
}
