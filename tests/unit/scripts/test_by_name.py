# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Ways to give, export or take away a name other than by ``export NAME=value``: each edit is right by bash, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script

from .oracle import Bash

ENGINE = "python3 -m sglang.launch_server"
K = "SGLANG_K"

# What stands in front of `exec ENGINE`. A row with more than one line has ¶ for the line ends.
ROWS = r"""
export SGLANG_{K,L}=4
export {SGLANG_K,B}=4
declare -x SGLANG_{K,L}=4
export SGLANG_{J..L}=4
export SGLANG_K=1; unset SGLANG_{K,L}
export -p SGLANG_K=1
export -p -- SGLANG_K=1
readonly -p SGLANG_K=1; export SGLANG_K
builtin export SGLANG_K=1
command export SGLANG_K=1
command -p export SGLANG_K=1
builtin declare -x SGLANG_K=1
builtin command builtin export SGLANG_K=1
X=; export SGLANG_K=1 $X
set --; export "$@" SGLANG_K=1
builtin export SGLANG_K=1 B=2
set -- SGLANG_K=4; export "$@"
set -- SGLANG_K=4; export "$1"
set -- SGLANG_K=4; export $*
V="SGLANG_K=4 B=1"; export $V
V=(SGLANG_K=4 B=1); export "${V[@]}"
V=(SGLANG_K=4); declare -x "${V[@]}"
for v in SGLANG_K=4 B=1; do export "$v"; done
for v in K L; do export "SGLANG_$v=4"; done
v=K; export "SGLANG_$v=4"
f() { export "$1=$2"; }; f SGLANG_K 4
f() { export "$@"; }; f SGLANG_K=4
f() { printf -v "$1" %s "$2"; export "$1"; }; f SGLANG_K 4
while read -r v; do export "$v"; done <<< SGLANG_K=4
while read -r v; do export "$v"; done <<EOF¶SGLANG_K=4¶EOF
mapfile -t v <<< SGLANG_K=4; export "${v[@]}"
export $(echo SGLANG_K=4)
export SGLANG_K=1; export $(echo SGLANG_K=4)
export SGLANG_K=1; for v in SGLANG_K; do export -n "$v"; done
export SGLANG_K=1; declare +x "SGLANG_${Z:-K}"
builtin . <(echo SGLANG_K=4); export SGLANG_K
builtin . <(echo export SGLANG_K=4)
builtin source /dev/stdin <<< "export SGLANG_K=4"
builtin . /dev/stdin <<EOF¶export SGLANG_K=4¶EOF
export SGLANG_K=1; builtin . <(echo SGLANG_K=4)
set -a; builtin . <(echo SGLANG_K=4); set +a
CMD="export SGLANG_K=4"; eval "$CMD"
CMD="export SGLANG_K=4"; eval $CMD
CMD="export SGLANG_K=4"; $CMD
CMD=(export SGLANG_K=4); "${CMD[@]}"
CMD=export; $CMD SGLANG_K=4
export SGLANG_K=1; CMD="unset SGLANG_K"; $CMD
f() { "$@"; }; f export SGLANG_K=4
export SGLANG_K=1; f() { "$@"; }; f unset SGLANG_K
run() { eval "$*"; }; run export SGLANG_K=4
export SGLANG_K=1; : $(( SGLANG_K=4 ))
export SGLANG_K; : $(( SGLANG_K=4 ))
export SGLANG_K=1; (( SGLANG_K=4 ))
export SGLANG_K=1; (( SGLANG_K += 4, 1 ))
export SGLANG_K=1; let SGLANG_K=4
export SGLANG_K=1; let "SGLANG_K = 4"
export SGLANG_K=1; v=SGLANG_K; let "$v=4"
export SGLANG_K=1; v=SGLANG_K; (( $v=4 ))
export SGLANG_K=1; v=SGLANG_K; : $(( $v=4 ))
export SGLANG_K=1; v='SGLANG_K=4'; : $(( v ))
export SGLANG_K=1; echo $[SGLANG_K=4]
export SGLANG_K=1; a=(1 2); : ${a[SGLANG_K=0]}
export SGLANG_K=1; for (( SGLANG_K=0; SGLANG_K<2; SGLANG_K++ )); do :; done
export SGLANG_K=1; [[ SGLANG_K=4 -eq 4 ]]
export SGLANG_K=1; a=(1 2); [[ -v a[SGLANG_K=0] ]]
export SGLANG_K=1; v=abc; : ${v:SGLANG_K=1}
export SGLANG_K=1; unset ${!SGLANG_@}
export SGLANG_K=1; unset "${!SGLANG_@}"
export SGLANG_K=1; unset ${!SGLANG*}
export SGLANG_K=1; for v in ${!SGLANG*}; do unset "$v"; done
unset ${!SGLANG_@}; export SGLANG_K=1
for v in ${!SGLANG*}; do unset "$v"; done; export SGLANG_K=1
export SGLANG_K=1; unset $(compgen -v SGLANG_)
export SGLANG_K=1; for v in $(env | grep ^SGLANG_ | cut -d= -f1); do unset $v; done
for v in $(env | grep ^SGLANG_ | cut -d= -f1); do unset $v; done; export SGLANG_K=1
export SGLANG_K=1; while read -r v; do unset "$v"; done < <(compgen -e | grep SGLANG)
export SGLANG_K=1; names=(SGLANG_K B); unset "${names[@]}"
export SGLANG_K=1; names="SGLANG_K B"; unset $names
export SGLANG_K=1; v=SGLANG_K; unset "$v"
export SGLANG_K=1; for v in K L; do unset "SGLANG_$v"; done
export SGLANG_K=1; unset -v SGLANG_K
export SGLANG_K=1; exec {SGLANG_K}>/dev/null
export SGLANG_K=1; : {SGLANG_K}>/dev/null
export SGLANG_K=1; { :; } {SGLANG_K}</dev/null
export SGLANG_K=1; read SGLANG_K <<< 4
export SGLANG_K=1; read -r -p x SGLANG_K <<< 4
export SGLANG_K=1; v=SGLANG_K; read "$v" <<< 4
export SGLANG_K=1; printf -v SGLANG_K 4
export SGLANG_K=1; v=SGLANG_K; printf -v "$v" 4
export SGLANG_K=1; printf -v SGLANG_K[0] 4
export SGLANG_K=1; printf -vSGLANG_K 4
export SGLANG_K=1; builtin printf -v SGLANG_K 4
export SGLANG_K=1; mapfile SGLANG_K <<< 4
export SGLANG_K=1; getopts ab SGLANG_K -a
export SGLANG_K=1; v=SGLANG_K; getopts ab "$v" -a
export SGLANG_K=1; declare -n ref=SGLANG_K; ref=4
export SGLANG_K=1; typeset -n ref=SGLANG_K; ref=4
export SGLANG_K=1; f() { local -n ref=$1; ref=4; }; f SGLANG_K
export SGLANG_K=1; for SGLANG_K in 1 2; do :; done
export SGLANG_K=1; select SGLANG_K in a b; do break; done <<< 1
export SGLANG_K=1; coproc SGLANG_K { :; }
export SGLANG_K=1; v=SGLANG_K; : "${!v:=4}"
export SGLANG_K=; v=SGLANG_K; : "${!v:=4}"
export SGLANG_K=; : "${SGLANG_K:=4}"
export SGLANG_K=1; sleep 0 & wait -n -p SGLANG_K
export SGLANG_K=1; v=SGLANG_K; declare "$v=4"
export SGLANG_K=1; v=SGLANG_K; declare -g "$v"=4
export SGLANG_K=1; v=SGLANG_K; readonly "$v=4"
exec bash -c "export SGLANG_K=8; exec ENGINE"
exec sh -c 'export SGLANG_K=8; exec ENGINE'
exec sh -c 'SGLANG_K=8 exec ENGINE'
exec sh -ec 'SGLANG_K=8 ENGINE'
exec bash -ec "unset SGLANG_K; exec ENGINE"
export SGLANG_K=1; exec bash -c "unset SGLANG_K; exec ENGINE"
export SGLANG_K=1; exec bash -c 'unset ${!SGLANG_@}; exec ENGINE'
export SGLANG_K=1; exec bash -c 'exec env -i PATH="$PATH" ENGINE'
export SGLANG_K=1; exec nohup bash -c 'read SGLANG_K <<< 4; exec ENGINE'
export SGLANG_K=1; exec numactl -N0 bash -c 'export SGLANG_K=$((SGLANG_K+1)); exec ENGINE'
export SGLANG_K=1; exec env A=1 bash -c 'export SGLANG_K=4; exec ENGINE'
CMD='export SGLANG_K=4; exec ENGINE'; exec bash -c "$CMD"
CMD='export SGLANG_K=4'; CMD="$CMD; exec ENGINE"; exec bash -c "$CMD"
[ -n "$Z" ] || CMD='export SGLANG_K=4; exec ENGINE'; exec bash -c "$CMD"
SGLANG_K=3 bash -c 'exec ENGINE'; exit
bash -c 'export SGLANG_K=4; exec ENGINE'; exit
bash -c 'export SGLANG_K=4; exec ENGINE' & wait; exit
exec bash <<< "export SGLANG_K=4; exec ENGINE"
bash <<EOF¶export SGLANG_K=4¶exec ENGINE¶EOF¶exit
echo 'export SGLANG_K=4; exec ENGINE' | bash; exit
ENVCMD="env SGLANG_K=4"; exec $ENVCMD ENGINE
ENVCMD="env -u SGLANG_K"; export SGLANG_K=1; exec $ENVCMD ENGINE
ENVCMD="env -i PATH=$PATH"; export SGLANG_K=1; exec $ENVCMD ENGINE
ENVCMD="env SGLANG_K=4"; [ -n "$Z" ] && ENVCMD=; exec $ENVCMD ENGINE
ENVCMD=(env SGLANG_K=4); exec "${ENVCMD[@]}" ENGINE
ENVCMD=(env SGLANG_K=4); $ENVCMD "${ENVCMD[@]:1}" ENGINE; exit
CMD=(env SGLANG_K=4 ENGINE); exec "${CMD[@]}"
CMD="env SGLANG_K=4 ENGINE"; exec $CMD
CMD="env SGLANG_K=4 ENGINE"; eval "exec $CMD"
CMD="SGLANG_K=4 ENGINE"; eval "$CMD"; exit
set -- env SGLANG_K=4 ENGINE; exec "$@"
run() { exec "$@"; }; run env SGLANG_K=4 ENGINE
run() { "$@"; }; run env SGLANG_K=4 ENGINE; exit
P=SGLANG_K=4; exec env "$P" ENGINE
P=SGLANG_K=4; exec env $P ENGINE
exec env SGLANG_K=4 ENGINE
exec env "SGLANG_K=4" ENGINE
exec env -S "SGLANG_K=4 ENGINE"
exec env -u SGLANG_K ENGINE
exec setsid -w env SGLANG_K=4 ENGINE
exec nice -n 1 env SGLANG_K=4 ENGINE
exec timeout 9 env SGLANG_K=4 ENGINE
exec xargs -a /dev/null env SGLANG_K=4 ENGINE
echo x | xargs env SGLANG_K=4 ENGINE; exit
exec setpriv --no-new-privs env SGLANG_K=4 ENGINE
exec find /dev/null -exec env SGLANG_K=4 ENGINE \;
export SGLANG_K=1; exec find /dev/null -exec env -u SGLANG_K ENGINE {} +
export SGLANG_K=1; exec setpriv --no-new-privs env -i PATH="$PATH" ENGINE
exec env SGLANG_K=4 bash -c 'exec ENGINE'
exec env SGLANG_K=4 bash -c 'SGLANG_K=5 exec ENGINE'
SGLANG_K=4 exec bash -c 'SGLANG_K=5 exec ENGINE'
export SGLANG_K=1; exec bash -c "SGLANG_K=\$SGLANG_K-x exec ENGINE"
exec bash -c 'exec "$@"' x env SGLANG_K=4 ENGINE
exec bash -ac 'SGLANG_K=4; exec ENGINE'
exec bash -o allexport -c 'SGLANG_K=4; exec ENGINE'
exec $(echo env SGLANG_K=4) ENGINE
CMD=(env SGLANG_K=4 ENGINE); exec "${CMD[@]:0}"
exec stdbuf -oL env SGLANG_K=4 ENGINE
export SGLANG_K=1; exec perl -e 'delete $ENV{SGLANG_K}; exec "ENGINE"'
cat > x.sh <<EOF¶export SGLANG_K=4; exec ENGINE¶EOF¶exec bash x.sh
export SGLANG_K=1¶cat > x.sh <<EOF¶export SGLANG_K=4; exec ENGINE¶EOF¶exec bash ./x.sh
IFS=, read -ra V <<< "SGLANG_K=4,B=1"; export "${V[@]}"
declare -A M=([SGLANG_K]=4); for k in "${!M[@]}"; do export "$k=${M[$k]}"; done
export SGLANG_K=1; f() { unset "$1"; }; f SGLANG_K
export SGLANG_K=1; f() { declare -g "$1=$2"; }; f SGLANG_K 4
export SGLANG_K=1; f() { local -n r="$1"; r=4; }; f SGLANG_K
export SGLANG_K=1; f() { export -n "$1"; }; f SGLANG_K
export SGLANG_K=1; { read; SGLANG_K=$REPLY; } <<< 4
export SGLANG_K=1; readarray -t -C 'SGLANG_K=4 #' -c 1 x <<< a
export SGLANG_K=1; trap 'SGLANG_K=4' USR1; kill -USR1 $$; :
trap 'export SGLANG_K=4' USR1; kill -USR1 $$; :
export SGLANG_K=1; trap 'SGLANG_K=4' DEBUG; :
export SGLANG_K=1; eval SGLANG_K=4
export SGLANG_K=1; eval SGLANG_K\=4
export SGLANG_K=1; v=4; eval SGLANG_K='$v'
export SGLANG_K=1; eval 'unset SGLANG_K'
eval export SGLANG_{K,L}=4
eval 'export SGLANG_{K,L}=4'
export SGLANG_K=1; eval "unset \${!SGLANG_@}"
export SGLANG_K=1; eval unset SGLANG_{K,L}
export "SGLANG_"{K,L}"=4"
export SGLANG_K{,}=4
export SGLANG_K=1; export -n SGLANG_{K,L}
readonly SGLANG_{K,L}=4; export SGLANG_K
SGLANG_K=4; export {SGLANG_K,B}
exec env SGLANG_{K,L}=4 ENGINE
export $'SGLANG_K=4'
export SGLANG_K=1; SGLANG_K[0]=4
export SGLANG_K=1; a=(SGLANG_K); printf -v "${a[0]}" 4
export SGLANG_K=1; a=(SGLANG_K); unset "${a[0]}"
export SGLANG_K=1; unset 'SGLANG_K[0]'
export SGLANG_K=1; v=SGLANG; unset "${v}_K"
export SGLANG_K=1; v=SGLANG; unset ${v}_{K,L}
export SGLANG_K=1; if read SGLANG_K <<< 4; then :; fi
export SGLANG_K=1; while read SGLANG_K; do :; done <<< 4
export SGLANG_K=1; until (( SGLANG_K++ > 3 )); do :; done
export SGLANG_K=1; case $((SGLANG_K=4)) in *) ;; esac
export SGLANG_K=1; for i in $((SGLANG_K=4)); do :; done
export SGLANG_K=1; x=$((SGLANG_K=4))
export SGLANG_K=1; export B=$((SGLANG_K=4))
export SGLANG_K=1; a[SGLANG_K=4]=1
export SGLANG_K=1; a=([SGLANG_K=4]=1)
export SGLANG_K=1; cat <<< $((SGLANG_K=4))
export SGLANG_K=1; cat <<EOF¶$((SGLANG_K=4))¶EOF
export SGLANG_K=1; : > /dev/null$((SGLANG_K=0)) || :
export SGLANG_K=1; declare -i n=SGLANG_K=4
export SGLANG_K=1; declare -i n; n=SGLANG_K=4
export SGLANG_K=1; test -v "a[SGLANG_K=4]"
export SGLANG_K=1; [ -v "a[SGLANG_K=4]" ]
export SGLANG_K=1; shopt -s extglob; : ${SGLANG_K:=4}
export SGLANG_K=1; set -- ${SGLANG_K:=4} SGLANG_K; unset "$2"
export SGLANG_K=1; command unset SGLANG_K
export SGLANG_K=1; builtin unset SGLANG_K
export SGLANG_K=1; command read SGLANG_K <<< 4
export SGLANG_K=1; command eval 'SGLANG_K=4'
export SGLANG_K=1; builtin let SGLANG_K=4
export SGLANG_K=1; time read SGLANG_K <<< 4
export SGLANG_K=1; ! read SGLANG_K <<< 4
export SGLANG_K=1; true && read SGLANG_K <<< 4
export SGLANG_K=1; false || read SGLANG_K <<< 4
"""

# Near to the above, and nothing to refuse: a knob behind it, and in HARMLESS also one in front of it.
HARMLESS = r"""
exec bash -c "exec ENGINE"
exec bash -c "exec ENGINE 2>&1"
exec bash -c 'ENGINE --log-level "$LEVEL" 2>&1 | cat'
exec bash -c "$CMD ENGINE"
export A=1; exec sh -c 'export B=2; exec ENGINE'
NUMACTL=; [ -n "$NODE" ] && NUMACTL="numactl -N$NODE"; exec $NUMACTL ENGINE
CMD=(ENGINE --port 1); exec "${CMD[@]}"
CMD=(env A=1 ENGINE); exec "${CMD[@]}"
set -- --port 1 "$@"; exec ENGINE "$@"
exec {fd}>/dev/null
read -r A <<< 4
printf -v A 4
(( A=4 ))
PORT=$((PORT + 1)); : $(( PORT = PORT + 1 ))
unset ${!NCCL_@}
builtin . <(echo A=4)
f() { local x; for x in "$@"; do echo "$x"; done; }; f SGLANG_K
[[ $SGLANG_K = 4 ]] || :
printf '%s\n' "$SGLANG_K"
while getopts "p:h" opt "$@"; do case $opt in p) PORT=$OPTARG;; esac; done
log() { printf '%s %s\n' "$(date)" "$*"; }; log "$SGLANG_K"
echo "${CMD[@]}" | cat
builtin export A=1
export A_{B,C}=1
"""
BEHIND = r"""
for v in A B; do export "$v=1"; done
names=(A B); unset "${names[@]}"
unset $(env | grep -i proxy | cut -d= -f1)
for v in $(env | grep -i proxy | cut -d= -f1); do unset "$v"; done
for v in ${!NCCL_@}; do unset "$v"; done
export $(echo A=1)
V="A=1 B=2"; export $V
f() { printf -v "$1" %s "$2"; export "$1"; }; f A 4
while read -r v; do export "$v"; done < /dev/null
"""


def rows(text: str) -> list[str]:
    return [row for row in text.splitlines() if row]


def script(row: str) -> bytes:
    return (row.replace("¶", "\n").replace("ENGINE", ENGINE) + f"\nexec {ENGINE}\n").encode()


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    oracle = Bash()
    yield oracle
    oracle.close()


def wrong(before: bytes, bash: Bash) -> list[str]:
    """What bash says of each edit that was reported as done, where it is not what was asked."""
    found = []
    seen = bash.environment(before) or {}
    told = read_script(before).value(K)
    if told is not None and not read_script(before).refusal and seen.get(K) != told:
        found.append(f"read {told!r}, bash {seen.get(K)!r}")
    for value in ("7", None):
        try:
            after = set_knob(before, K, value) if value is not None else unset_knob(before, K)
        except EditRefused as refusal:
            assert re.search(r"line \d+", str(refusal)), str(refusal)
            continue
        environment = bash.environment(after)
        if environment is None or environment.get(K) != value:
            found.append(f"{value!r}: {environment and environment.get(K)!r} by {after!r}")
    return found


@pytest.mark.parametrize("row", rows(ROWS))
def test_an_edit_is_right_or_refused(row: str, bash: Bash) -> None:
    before = script(row)
    assert bash.environment(before) is not None, "no engine is started"
    assert not wrong(before, bash)


def done(row: str, value: str, bash: Bash) -> None:
    before = script(row)
    for wanted in (value, None):
        after = set_knob(before, K, wanted) if wanted is not None else unset_knob(before, K)
        environment = bash.environment(after)
        assert environment is not None and environment.get(K) == wanted, after


@pytest.mark.parametrize("row", rows(HARMLESS) + rows(BEHIND))
def test_what_concerns_other_names_is_no_reason_to_refuse(row: str, bash: Bash) -> None:
    done(row, "7", bash)
    if row in rows(HARMLESS):
        done(f"export {K}=1¶{row}", "7", bash)
    if "ENGINE" not in row:
        done(f"{row}¶export {K}=1", "7", bash)


@pytest.mark.parametrize(
    "row",
    [
        f"export -p {K}=1",
        f"export -p -- {K}=1",
        f"builtin export {K}=1",
        f"command export {K}=1",
        f"command -p export {K}=1",
        f"builtin declare -x {K}=1",
        f"builtin command builtin export {K}=1",
    ],
)
def test_nothing_is_left_that_prints_every_export(row: str) -> None:
    assert unset_knob(script(f"A=1¶{row}"), K) == script("A=1")


@pytest.mark.parametrize("row", [f'export {K}=1 "$@"', f"X=; export {K}=1 $X", f"set --; export {K}=1 $(true)"])
def test_what_would_print_every_export_alone_is_refused(row: str) -> None:
    with pytest.raises(EditRefused, match="line 1"):
        unset_knob(script(row), K)
