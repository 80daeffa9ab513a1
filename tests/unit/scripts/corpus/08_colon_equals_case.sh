#!/bin/sh
set -e
case "$1" in
  pack) shift; exec python3 /opt/pack.py pack "$@" ;;
esac
case "${TIER_MODE:-small}" in
  small) : "${TIER_RAM_GB:=2}" "${TIER_ADMIT:=1}" ;;
  large) : "${TIER_RAM_GB:=7}" "${TIER_ADMIT:=0}" ;;
  *) echo "TIER_MODE must be small or large" >&2; exit 2 ;;
esac
export TIER_RAM_GB TIER_ADMIT
export SGLANG_LOG_MS=1
if [ "$#" -eq 1 ]; then exec /bin/sh -c "$1"; fi
exec python3 -m sglang.launch_server --port 30000
