#!/bin/sh
# Makes .venv and installs what the demo needs, and on top what the targets named as arguments need:
# `tools/setup.sh`, `tools/setup.sh test`, `tools/setup.sh check bench`. It never removes a package, and does
# nothing where all of it is installed. Needs Python 3.11 or newer and its pip, nothing else: neither the venv
# package that Debian splits off nor a writable system Python. PYTHON names the interpreter; the default is the
# first in PATH that is new enough.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '==> %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$*" >&2; exit 2; }

recent_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        recent_enough "$PYTHON" || stop "PYTHON=$PYTHON is not Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if recent_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    stop "Python 3.11 or newer is needed; the one in PATH is $(python3 --version 2>&1 || echo missing).
       Install one (on Debian 12 or newer: apt-get install python3 python3-pip) or name it: make setup PYTHON=/path/to/python3.11"
}

# Puts the pip that constraints.txt locks into .venv, by the interpreter's own pip.
install_pip() {
    mkdir -p .cache
    sed -n '/^pip==/,/[^\\]$/p' constraints.txt >.cache/pip.txt
    "$python" -m pip --python "$venv/bin/python" install -qq --require-hashes --requirement .cache/pip.txt
}

make_venv() {
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    say "Making $venv with $("$python" --version)"
    rm -rf "$venv"
    if "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 && install_pip 2>/dev/null; then
        return
    fi
    # No pip, or one older than 22.3 that has no --python: take the pip that comes with venv.
    rm -rf "$venv"
    if "$python" -m venv "$venv" >/dev/null 2>&1; then
        return
    fi
    # Debian without python3-venv.
    rm -rf "$venv"
    "$python" -m pip --version >/dev/null 2>&1 || stop "$python has neither venv nor pip (on Debian: apt-get install python3-pip)."
    "$python" -m pip install --quiet --target .cache/virtualenv virtualenv
    PYTHONPATH=.cache/virtualenv "$python" -m virtualenv --quiet --no-download "$venv"
}

# The entries of constraints.txt that one of these targets needs.
locked_for() {
    awk -v targets=" $* " '
        /^# for:/ { needed = 0; for (i = 3; i <= NF; i++) if (index(targets, " " $i " ")) needed = 1 }
        needed && !/^#/
    ' constraints.txt
}

is_ready() {
    stamp=$venv/.ready-$1
    [ -e "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && [ "$stamp" -nt tools/setup.sh ]
}

missing=
for target in run "$@"; do
    case " $missing " in *" $target "*) continue ;; esac
    is_ready "$target" || missing="$missing $target"
done
[ -n "$missing" ] || exit 0

make_venv
mkdir -p .cache
locked_for $missing >.cache/locked.txt
say "Installing $(grep -c '==' .cache/locked.txt) packages for make$missing, by hash"
"$venv/bin/python" -m pip install -qq --no-deps --require-hashes --requirement .cache/locked.txt
case $missing in
*run*) "$venv/bin/python" -m pip install -qq --no-deps --no-build-isolation --editable . ;;
esac
for target in $missing; do
    touch "$venv/.ready-$target"
done
say "Ready"
