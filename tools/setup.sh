#!/bin/sh
# Makes .venv, the environment that every other make target runs in. Needs Python 3.11 or newer and
# its pip, nothing else: neither the venv package that Debian splits off nor a writable system Python.
# PYTHON names the interpreter to use; by default the first one in PATH that will do.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.installed

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

make_venv() {
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    say "Making $venv with $("$python" --version)"
    rm -rf "$venv"
    if "$python" -m venv "$venv" >/dev/null 2>&1; then
        return
    fi
    # Debian without python3-venv: the environment can be made, but not its pip. The system's pip puts one in.
    rm -rf "$venv"
    "$python" -m pip --version >/dev/null 2>&1 || stop "$python has neither venv nor pip (on Debian: apt-get install python3-pip)."
    if ! "$python" -m venv --without-pip "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        "$python" -m pip install --quiet --target .cache/virtualenv virtualenv
        PYTHONPATH=.cache/virtualenv "$python" -m virtualenv --quiet --no-download "$venv"
        return
    fi
    mkdir -p .cache
    sed -n '/^pip==/,/[^\\]$/p' constraints.txt >.cache/pip.txt
    "$python" -m pip --python "$venv/bin/python" install --quiet --require-hashes --requirement .cache/pip.txt
}

if [ -e "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && [ "$stamp" -nt tools/setup.sh ]; then
    exit 0
fi
make_venv
say "Installing what constraints.txt locks, by hash (a minute or two the first time)"
"$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --require-hashes --requirement constraints.txt
say "Installing reconcile-runtime"
"$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch "$stamp"
say "Ready"
