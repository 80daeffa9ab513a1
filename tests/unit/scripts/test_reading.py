# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script
from hypothesis import given, settings
from hypothesis import strategies as st

CASES = os.path.join(os.path.dirname(__file__), "cases")
ENGINE = "exec python3 -m sglang.launch_server --port 30001\n"


def case(name: str) -> bytes:
    with open(os.path.join(CASES, name), "rb") as file:
        return file.read()


def states(script: str) -> list[tuple[str, object, str]]:
    return [(export.name, export.value, export.state) for export in read_script(script.encode()).exports]


def codes(script: str) -> list[str]:
    return [finding.code for finding in read_script(script.encode()).findings]


def test_the_fields_decode_script() -> None:
    reading = read_script(case("01_dsv4_decode.sh"))

    assert reading.value("SGLANG_SM120_MMA_TARGET_CTAS") == "512"
    assert reading.exec_line == 15
    export = reading.active()["SGLANG_SM120_MMA_TARGET_CTAS"]
    assert (export.line, export.state, export.form) == (12, "active", "export")
    assert export.text == "export SGLANG_SM120_MMA_TARGET_CTAS=512   # A/B: +12.8% at C64, +5.7% at C96"
    assert [finding.code for finding in reading.findings] == ["sourced"]
    assert reading.refusal is None


def test_defaults_prefixes_and_comments_of_case_04() -> None:
    reading = read_script(case("04_inline_env_and_defaults.sh"))

    assert reading.active()["UCX_TLS"].value is None
    assert reading.value("SGLANG_LOG_MS") == "1"
    assert reading.active()["SGLANG_LOG_MS"].form == "prefix"
    assert [(e.name, e.value) for e in reading.exports if e.state == "commented"] == [
        ("SGLANG_SM120_MMA_TARGET_CTAS", "256")
    ]
    assert "SGLANG_SM120_MMA_TARGET_CTAS" not in reading.active()


def test_conditions_and_documents_of_case_05() -> None:
    reading = read_script(case("05_conditional.sh"))

    assert reading.value("SGLANG_DISAGGREGATION_WAITING_TIMEOUT") == "300"
    assert [(e.name, e.line) for e in reading.exports if e.state == "conditional"] == [
        ("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", 5),
        ("SGLANG_DISAGGREGATION_WAITING_TIMEOUT", 8),
    ]
    assert all(e.name != "SGLANG_SM120_MMA_TARGET_CTAS" for e in reading.exports)


def test_a_carriage_return_is_part_of_the_value_as_for_bash() -> None:
    reading = read_script(case("06_crlf.sh"))

    assert reading.value("SGLANG_LOG_MS") == "1\r"
    assert "carriage-return" in [finding.code for finding in reading.findings]


def test_the_last_of_two_wins_and_is_reported() -> None:
    reading = read_script(case("08_duplicate_and_secret.sh"))

    assert [e.state for e in reading.exports if e.name == "SGLANG_SM120_MMA_TARGET_CTAS"] == ["overridden", "active"]
    assert ("duplicated", 6) in [(finding.code, finding.line) for finding in reading.findings]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("export A=1 # c\n", [("A", "1", "active")]),
        ('export A="a # b"\n', [("A", "a # b", "active")]),
        ("export A=1; export B=2\n", [("A", "1", "active"), ("B", "2", "active")]),
        ("export \\\n A=1 \\\n B=2\n", [("A", "1", "active"), ("B", "2", "active")]),
        ("A=1\nexport A\n", [("A", "1", "active")]),
        ("export A\nA=1\n", [("A", None, "overridden"), ("A", "1", "active")]),
        ("declare -x A=1\ntypeset -x B=2\n", [("A", "1", "active"), ("B", "2", "active")]),
        ("export A=1\nexport A+=2\n", [("A", "1", "overridden"), ("A", "12", "active")]),
        ("export A=1\nunset A\n", [("A", "1", "overridden")]),
        ("export A=1\nexport -n A\n", [("A", "1", "overridden")]),
        ("set -a\nA=1\nset +a\nB=2\n", [("A", "1", "active")]),
        ("B=2\nexport A=$B/x\n", [("A", "2/x", "active")]),
        ("export A=${B:-x}\n", [("A", None, "active")]),
        ("B=2\nexport A=${B:-x}\n", [("A", "2", "active")]),
        ("unset B\nexport A=${B:-x}\n", [("A", "x", "active")]),
        ("export A=1 B=$A\n", [("A", "1", "active"), ("B", None, "active")]),
        ("{ export A=1; }\n", [("A", "1", "active")]),
        ("(export A=1)\n", [("A", "1", "dead")]),
        ("export A=1 | cat\n", [("A", "1", "dead")]),
        ("export A=1 &\n", [("A", "1", "dead")]),
        ("true && export A=1\n", [("A", "1", "conditional")]),
        ("for i in 1; do export A=1; done\n", [("A", "1", "conditional")]),
        ("f() { export A=1; }\n", [("A", "1", "dead")]),
        ("f() { export A=1; }\nf\n", [("A", "1", "active")]),
        ("[ -n x ] && f() { export A=1; }\nf\n", [("A", "1", "conditional")]),
        ("cat <<E > x\nexport A=1\nE\n", []),
        ("cat <<-'E' > x\n\texport A=1\n\tE\n", []),
        ("echo 'export A=1' \"\nexport A=2\"\n", []),
        ("cat <<< 'export A=1'\n", []),
        ("exec > log 2>&1\nexport A=1\n", [("A", "1", "active")]),
        (
            "#export A=1\n# export A='2' B=3\n",
            [("A", "1", "commented"), ("A", "2", "commented"), ("B", "3", "commented")],
        ),
        ("export A=1 || true\n", [("A", "1", "active")]),
        ("export A=(1 2)\n", [("A", None, "overridden")]),
        ("read A <<< 1\nexport A\n", [("A", None, "active")]),
        ('export "A=a b"\n', [("A", "a b", "active")]),
        ("export A=~/x\n", [("A", None, "active")]),
        ("export A={1,2}\n", [("A", None, "active")]),
        ("export A=$'a\\tb'\n", [("A", "a\tb", "active")]),
        ("export A=$(echo 1)\n", [("A", None, "active")]),
        ("export A=1\nif [ x ]; then export A=2; fi\n", [("A", "1", "active"), ("A", "2", "conditional")]),
    ],
)
def test_states_and_values(lines: str, expected: object) -> None:
    assert states(lines + ENGINE) == expected


def test_a_later_conditional_export_makes_the_winning_value_unknown() -> None:
    reading = read_script(b"export A=1\nif [ x ]; then export A=2; fi\n" + ENGINE.encode())

    assert reading.value("A") is None
    assert reading.active()["A"].line == 1


def test_behind_exec_nothing_counts() -> None:
    script = "export A=1\n" + ENGINE + "export A=2 B=3\n"

    assert states(script) == [("A", "1", "active"), ("A", "2", "dead"), ("B", "3", "dead")]
    assert read_script(script.encode()).exec_line == 2


def test_without_exec_the_engines_own_command_is_the_end() -> None:
    reading = read_script(b"export A=1\npython3 -m sglang.launch_server 2>&1 | tee log\nexport A=2\n")

    assert reading.value("A") == "1"
    assert "no-exec" in [finding.code for finding in reading.findings]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("source /x/y\n", "sourced"),
        (". ./env\n", "sourced"),
        ("eval 'export A=1'\n", "eval"),
        ("export $(cat env)\n", "unknown-names"),
        ("export A-B=1\n", "not-a-name"),
        ("readonly A=1\nexport A=2\n", "readonly"),
        ("export A=(1 2)\n", "array"),
        ("shopt -s expand_aliases\nalias export='echo'\n", "not-understood"),
        ("set -k\n", "not-understood"),
    ],
)
def test_findings(lines: str, code: str) -> None:
    assert code in codes(lines + ENGINE)


@pytest.mark.parametrize(
    "broken", ["export A='1\n", "if true; then\n", "export A=$(\n", "fi\n", "export A=${B\n", "cat <<E | (\n"]
)
def test_broken_scripts_say_where(broken: str) -> None:
    reading = read_script(b"export B=1\n" + broken.encode() + ENGINE.encode())

    assert reading.refusal is not None
    assert reading.refusal.startswith("line ")
    assert "not-understood" in [finding.code for finding in reading.findings]


def test_bytes_that_are_no_utf8_come_as_surrogates() -> None:
    reading = read_script(b"export A=\xe9 B='\xc3\xa9'\n" + ENGINE.encode())

    assert os.fsencode(reading.value("A") or "") == b"\xe9"
    assert reading.value("B") == "é"


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xfe", b"(" * 5000, b"${" * 5000, b"if " * 3000, b"$(" * 3000, b'"$(' * 2000]
)
def test_no_bytes_raise(data: bytes) -> None:
    read_script(data)
    read_script(data + b"\n" + ENGINE.encode())


PIECES = [
    "export ", "A=", "1", "'", '"', "$(", ")", "{", "}", "\n", " ", "if ", "then ", "fi", "<<E", "#", "\\", "`", "${",
    "case x in ", "esac", ";;", "&", "|", "((", "[[ ", "]]", "\xe9", "\r", "unset ", "f() ", "set -a;", "eval ", "exec ", "$A",
]  # fmt: skip


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_no_pieces_of_shell_raise(pieces: list[str]) -> None:
    read_script("".join(pieces).encode("latin-1"))


def test_a_command_behind_a_word_that_may_vanish_may_export() -> None:
    reading = read_script(
        b"$SUDO export SGLANG_A=5\n$(x) $Y unset SGLANG_B\n" + b"exec python3 -m sglang.launch_server\n"
    )
    assert [(each.name, each.state) for each in reading.exports] == [("SGLANG_A", "conditional")]
    quoted = read_script(
        b'"$SUDO" export SGLANG_A=5\n$DIR/tool export SGLANG_A=5\nexec python3 -m sglang.launch_server\n'
    )
    assert quoted.exports == ()


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("A=\\\n~", None),
        ("A=x:\\\n~/y", None),
        ("A=a\\\nb", "ab"),
        ('A="a\\\nb"', "ab"),
        ("A='a\\\nb'", "a\\\nb"),
        ("A=$'a\\\nb'", "a\\\nb"),
        ("A=a\\\\\\\nb", "a\\b"),
    ],
)
def test_a_word_over_two_lines_is_joined_before_all_else(word: str, value: object) -> None:
    reading = read_script(f"export {word}\nexec python3 -m sglang.launch_server\n".encode())
    assert reading.value("A") == value and reading.refusal is None


@pytest.mark.parametrize("line", ["export A\\\n=1", "A=$\\\n(echo 1)", "i\\\nf true; then A=1; fi", "A\\\n=1"])
def test_a_word_that_its_second_line_makes_another_is_refused(line: str) -> None:
    assert read_script(f"{line}\nexec python3 -m sglang.launch_server\n".encode()).refusal


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("declare -x A=1 & A=0", "0"),
        ("(local A=1); A=0", "0"),
        ("local A=1 | true; A=0", "0"),
        ("local A=1; A=0", "5"),
        ("if [ $# = 0 ]; then local A=1; fi; A=0", None),
        ("for x in $X; do local A=1; done; A=0", None),
        ("[ -n $X ] && local A; A=0", None),
        ("for x in 1 2; do local y=$x; done; local A=0", "5"),
    ],
)
def test_a_name_that_is_local_on_some_ways_only(body: str, value: object) -> None:
    reading = read_script(f"export A=5\nf() {{\n{body}\n}}\nf\nexec python3 -m sglang.launch_server\n".encode())
    assert reading.value("A") == value


@pytest.mark.parametrize("word", ["``export", "$X'export'", "un$(x)set"])
def test_a_word_that_may_become_export_is_refused(word: str) -> None:
    assert read_script(f"{word} A=1\nexec python3 -m sglang.launch_server\n".encode()).refusal
