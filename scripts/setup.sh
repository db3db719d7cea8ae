#!/usr/bin/env bash
# Makes .venv with the locked CPU stack and gfcr installed editable. Safe to run again.
# Reads PYTHON (interpreter to use) and TORCH_INDEX (extra package index for torch).
set -euo pipefail
cd "$(dirname "$0")/.."
lock=requirements/cpu.lock
quietly() { bash scripts/quietly.sh "$@"; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3.12 python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "gfcr needs Python 3.11 or newer; tried: ${PYTHON:-python3.11 python3.12 python3}." \
        "Install python3.11, or name one: make setup PYTHON=/path/to/python" >&2
    return 1
}

# An installation cut short leaves packages that pip cannot read: then begin anew.
unfinished=.venv/.setup-unfinished
if [ -e "$unfinished" ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    quietly "virtual environment" "$python" -m venv --clear .venv
fi
touch "$unfinished"
pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input install --no-deps)

# On its own, so that only torch may come from the extra index. The pin names the CPU build, hence
# a CUDA build is never taken by mistake: it is refused before anything is downloaded.
torch=$(grep '^torch==' "$lock")
if ! quietly "$torch" "${pip[@]}" ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$torch"; then
    cat >&2 <<EOF
If no matching distribution was found: CPU builds of torch are on PyTorch's own package index. Run
    make setup TORCH_INDEX=URL
once, where URL is the CPU index URL given on PyTorch's install page (choose Pip and CPU there).
EOF
    exit 1
fi
quietly "$(grep -c '==' "$lock") locked packages (minutes the first time)" "${pip[@]}" -r "$lock"
quietly "gfcr, editable" "${pip[@]}" --no-build-isolation --editable .
rm "$unfinished"
