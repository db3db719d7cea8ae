#!/usr/bin/env bash
# Chromium and its driver, which drive the report page in the tests. Safe to run again; never fails:
# without a browser those tests are skipped and say so.
set -uo pipefail
cd "$(dirname "$0")/.."

command -v chromium >/dev/null && command -v chromedriver >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "  no Chromium: the page's tests are skipped; install chromium and chromedriver for them" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
bash scripts/quietly.sh "package lists" apt-get update
bash scripts/quietly.sh "Chromium and its driver" \
    apt-get install --yes --no-install-recommends chromium chromium-driver ||
    echo "  no Chromium: the page's tests are skipped" >&2
exit 0
