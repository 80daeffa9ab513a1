# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Forms that the generator makes seldom or never, each a kind that was read or edited wrongly once: bash is the judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script

from .judging import judge_edit, judge_reading
from .oracle import Bash

ENGINE = "exec python3 -m sglang.launch_server\n"
NAMES = ("EE", "TT", "SGLANG_CC")

# Words and operators over two lines. `^` is a line end here.
OVER_TWO_LINES = r"""
exec 2\^>/dev/null^export EE=1
f\^oo() {^export EE=1^}^foo
cat <<E\^OF^export EE=4^EOF^export EE=5
export EE=1\^# no comment
if\^x() { :; }^export EE=1
(\^(TT=5))^export EE=$TT
export EE\^=3
true &\^& export EE=2
export EE=1 \^# comment
export EE=1 &\^^export SGLANG_CC=3
""".strip().split("\n")

# What a word, a condition or a here-document sets by the way.
SET_BY_THE_WAY = r"""
TT=1^export EE=$((TT=5))^export SGLANG_CC=$TT
export EE=2^echo $((EE=5))
unset EE^[[ ${EE:=5} ]]^export EE
unset EE^case ${EE:=5} in 5) :;; esac^export EE
unset EE^for i in ${EE:=5}; do :; done^export EE
TT=1^if [[ $((TT=5)) == 5 ]]; then :; fi^export TT
unset EE^: <<X^${EE:=5}^X^export EE
export EE=1^printf -vEE 5
getopts a: EE -a x^export EE
""".strip().split("\n")

FUNCTIONS_AND_LOOPS = r"""
f() { while true; do return; done; export EE=1; }^f
export EE=1^f() { for i in 1; do return; done; export EE=2; }^f
f() { export EE=1; }^unset -f f^f
f=1^f() { export EE=1; }^unset f^f
( f() { export EE=1; } )^f
f() { export EE=1; }^( unset -f f )^f
f() { export EE=1; }^if false; then f() { export TT=2; }; fi^f
f() { export EE=1; f() { export EE=2; }; }^f^f
f() { export EE=2; }^EE=1 f
f() { local EE; declare -g EE=5; }^export EE=1^f
export EE=1^f() { export EE=2; }^eval f
export EE=1^f() { export EE=2; }^trap f DEBUG
f() { export EE=$1; }^f 5
f() { export EE=$1; }^f 5^f 6
f() { export "$1"=5; }^f EE
""".strip().split("\n")

WHAT_MAY_FAIL = r"""
{ export EE=1; } > /nope/x
f() { export EE=1; } > /nope/x^f
export EE=1^f() { export EE=2; }^f > /nope/x
export EE=1^export EE=2 <&9
set -e^export EE=1^[ "$EE" = 1 ]
set -e^export EE=1^(( EE == 1 ))
set -e^f() { [ "$EE" = 1 ] && true; }^export EE=1^f
set -e^export EE=1^if true; then [ "$EE" = 1 ]; fi
f() { [ "$EE" = 1 ]; }^export EE=1^f || exit 1
export EE=1^[ -n "$EE" ] || exit 1
export EE=1^case $EE in 1) :;; *) exit 1;; esac
export EE=1^if [ "$EE" = 512 ]; then exec true; fi
export EE=1^: "${EE:?}"
""".strip().split("\n")

WHAT_DEPENDS = r"""
false^export EE=$?
export EE=1^export SGLANG_CC=$_
IFS=x^EE=axb^set -- $EE^export TT=$1
TT=EE^export EE=1^export SGLANG_CC=${!TT}
export EE=0^pushd / > /dev/null^export TT=$PWD
export EE=0^readonly {EE,TT}=1
export EE=0^for i in EE TT; do read $i <<< 5; done
export EE=0^while read -r l; do export "$l"; done <<< EE=5
EE="SGLANG_CC=3 TT=4"^export $EE
""".strip().split("\n")

# What an unset name ends under `set -u`.
UNBOUND = r"""
set -u^export EE=1^echo "${#EE}"
set -u^export EE=1^echo $((EE+1))
set -u^export EE=1^[[ EE -eq 1 ]]
set -u^export EE=1^x=abc^echo ${x:EE:1}
set -u^export EE=1^x=(a b)^x[EE]=3
set -u^export EE=1^export TT=$[EE+1]
set -u^export EE=1^: "${EE:-}" "${EE+x}"
""".strip().split("\n")


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    oracle = Bash()
    yield oracle
    oracle.close()


FORMS = OVER_TWO_LINES + SET_BY_THE_WAY + FUNCTIONS_AND_LOOPS + WHAT_MAY_FAIL + WHAT_DEPENDS + UNBOUND


@pytest.mark.parametrize("form", FORMS)
def test_bash_agrees(form: str, bash: Bash) -> None:
    script = (form.replace("^", "\n") + "\n" + ENGINE).encode()
    judge_reading(script, bash)
    for name in (*(each for each in NAMES if each in form), "SGLANG_NEW"):
        for value in ("512", None):
            judge_edit(script, name, value, bash)


@pytest.mark.parametrize(
    ("script", "value", "line", "said"),
    [
        ('set -e\nexport A=1\n[ "$A" = 1 ]\n', "2", 3, "whether the script ends here depends on A"),
        ('export A=1\nif [ -z "$A" ]; then\n  exit 1\nfi\n', "", 2, "whether the script ends here depends on A"),
        ("export A=1\n: ${A:?}\n", None, 2, r"stops here when there is nothing in \$A"),
        ("export A=1\n: ${A:?}\n", "", 2, r"stops here when there is nothing in \$A"),
    ],
)
def test_an_edit_after_which_the_script_would_end_is_refused(
    script: str, value: Optional[str], line: int, said: str
) -> None:
    data = (script + ENGINE).encode()

    with pytest.raises(EditRefused, match=said) as refusal:
        _ = unset_knob(data, "A") if value is None else set_knob(data, "A", value)

    assert refusal.value.details["line"] == line


@pytest.mark.parametrize(
    "script",
    [
        'export A=1\nif [ ! -d "$A" ]; then\n  echo "no $A" >&2\n  exit 1\nfi\n',
        'export A=1\nif [ -z "$A" ]; then\n  exit 1\nfi\n',
        'export A=1\ncd "$A" || exit 1\n',
        'set -e\nexport A=1\nif [ "$A" = 1 ]; then\n  echo one\nfi\n',
        "export A=1\n{ exec python3 -m sglang.launch_server; } > log 2>&1\n",
    ],
)
def test_a_test_of_a_file_or_one_that_stays_as_it_is_stops_no_edit(script: str) -> None:
    data = (script + ENGINE).encode()

    assert read_script(set_knob(data, "A", "2")).value("A") == "2"
