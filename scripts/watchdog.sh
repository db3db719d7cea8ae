#!/usr/bin/env bash
# watchdog.sh GROUP SECONDS: after so many seconds, prints the processes of a process group with the
# stacks of its Python tests (tests/conftest.py writes them on SIGUSR1), and ends the group.
set -uo pipefail
cd "$(dirname "$0")/.."
group=$1
stacks=.cache/stacks
rm -rf "$stacks"
sleep "$2" & trap 'kill $! 2>/dev/null; exit' TERM
wait $!
echo "watchdog: the tests still run after $2 s; what runs now:"
ps -e -o pid,pgid,ppid,etime,stat,args --forest | awk -v group="$group" 'NR == 1 || $2 == group' | cut -c1-200
pkill -USR1 -g "$group" -f 'pytest|sys.stdin.readline' # pytest and the workers of xdist
sleep 5
tail -n +1 "$stacks"/* 2>/dev/null
kill -TERM -- "-$group"
sleep 20
kill -KILL -- "-$group" 2>/dev/null
