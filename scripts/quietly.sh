#!/usr/bin/env bash
# quietly.sh LABEL COMMAND...: runs the command with its output in a log, shown only on failure
# (pip prints thousands of lines on some machines).
set -uo pipefail
log=.cache/setup.log
mkdir -p .cache
echo "  $1"
shift
"$@" >"$log" 2>&1 && exit 0
status=$?
grep -v '^WARNING' "$log" | tail -n 25 >&2
echo "Failed: $* (whole log: $log)" >&2
exit $status
