# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script

CASES = os.path.join(os.path.dirname(__file__), "cases")
ENGINE = "exec python3 -m sglang.launch_server\n"


def case(name: str) -> bytes:
    with open(os.path.join(CASES, name), "rb") as file:
        return file.read()


def set_in(script: str, name: str, value: str) -> str:
    return set_knob((script + ENGINE).encode(), name, value).decode().replace(ENGINE, "")


def unset_in(script: str, name: str) -> str:
    return unset_knob((script + ENGINE).encode(), name).decode().replace(ENGINE, "")


def test_the_reverted_knob_goes_back_beside_its_relative() -> None:
    edited = set_knob(case("01_dsv4_decode.reverted.sh"), "SGLANG_SM120_MMA_TARGET_CTAS", "512")

    assert edited == case("01_dsv4_decode.sh").replace(b"512   # A/B: +12.8% at C64, +5.7% at C96", b"512")


def test_reverting_gives_the_reverted_file_byte_for_byte() -> None:
    assert unset_knob(case("01_dsv4_decode.sh"), "SGLANG_SM120_MMA_TARGET_CTAS") == case("01_dsv4_decode.reverted.sh")


def test_the_same_value_leaves_the_same_bytes() -> None:
    script = case("01_dsv4_decode.sh")

    assert set_knob(script, "SGLANG_SM120_MMA_TARGET_CTAS", "512") is script
    assert unset_knob(script, "SGLANG_NOT_THERE") == script


def test_a_knob_that_is_commented_out_goes_below_its_comment() -> None:
    script = case("04_inline_env_and_defaults.sh")
    comment = b"#export SGLANG_SM120_MMA_TARGET_CTAS=256\n"

    edited = set_knob(script, "SGLANG_SM120_MMA_TARGET_CTAS", "512")

    assert edited == script.replace(comment, comment + b"export SGLANG_SM120_MMA_TARGET_CTAS=512\n")


@pytest.mark.parametrize(
    ("script", "value", "edited"),
    [
        ("export A=1\n", "2", "export A=2\n"),
        ("export A=1   # why\n", "2", "export A=2   # why\n"),
        ("export A='1'\n", "2", "export A='2'\n"),
        ('export A="1"\n', "a b", 'export A="a b"\n'),
        ("export A=1\n", "a b", "export A='a b'\n"),
        ("export A='1'\n", "it's", 'export A="it\'s"\n'),
        ('export A="1"\n', "$x", "export A='$x'\n"),
        ("export A=1\n", "it's $5", 'export A="it\'s \\$5"\n'),
        ("export A=1\n", "", "export A=\n"),
        ('export A="1"\n', "", 'export A=""\n'),
        ("export A=1\n", "a\tb", "export A='a\tb'\n"),
        ("export A=1 B=2 C=3\n", "9", "export A=9 B=2 C=3\n"),
        ("export B=2 A=1; echo x\n", "9", "export B=2 A=9; echo x\n"),
        ("export \\\n\tB=2 \\\n\tA=1\n", "9", "export \\\n\tB=2 \\\n\tA=9\n"),
        ("export A=${A:-1} # d\n", "9", "export A=9 # d\n"),
        ('export A="${A:-1}"\n', "9", 'export A="9"\n'),
        ("export A=x\nexport A+=y\n", "z", "export A=x\nexport A=z\n"),
        ("A=1\nexport A\n", "2", "A=2\nexport A\n"),
        ("export A\n", "2", "export A=2\n"),
        ("export A\nA=1\n", "2", "export A\nA=2\n"),
        ("declare -x A=1\n", "2", "declare -x A=2\n"),
        ("set -a\nA=1\nset +a\n", "2", "set -a\nA=2\nset +a\n"),
        ('export "A=a b"\n', "c d", "export A='c d'\n"),
        ("export A=1\nexport A=2\n", "3", "export A=1\nexport A=3\n"),
        ("export A=1\nunset A\n", "2", "export A=1\nunset A\nexport A=2\n"),
        ("main() {\n  export A=1\n}\nmain\n", "2", "main() {\n  export A=2\n}\nmain\n"),
        ("export A=\\\n1\n", "2", "export A=2\n"),
        ("export A=a\\ b\n", "2", "export A=2\n"),
        ("export A={1,2}\n", "2", "export A=2\n"),
        (": ${A:=1}\nexport A\n", "2", ": ${A:=1}\nexport A=2\n"),
        ("\texport A=1\t\n", "2", "\texport A=2\t\n"),
    ],
)
def test_only_the_value_changes(script: str, value: str, edited: str) -> None:
    assert set_in(script, "A", value) == edited


@pytest.mark.parametrize(
    ("script", "edited"),
    [
        ("export A=1\n", ""),
        ("export A=1 # why\n", ""),
        ("  export A=1;  # why\nexport B=2\n", "export B=2\n"),
        ("export A=1 B=2 # c\n", "export B=2 # c\n"),
        ("export B=2 A=1 # c\n", "export B=2 # c\n"),
        ("export B=2  A=1 C=3\n", "export B=2 C=3\n"),
        ("export \\\n  A=1 \\\n  B=2\n", "export \\\n  B=2\n"),
        ("export \\\n  B=2 \\\n  A=1\n", "export \\\n  B=2\n"),
        ("export \\\n  A=1\n", ""),
        ("export A=1; export B=2\n", "export B=2\n"),
        ("export B=2; export A=1 # c\n", "export B=2 # c\n"),
        ("export B=2; export A=1; export C=3\n", "export B=2; export C=3\n"),
        ("export A=1\nexport B=2\nexport A=3\n", "export B=2\n"),
        ("export A=1 && export B=2\n", None),
        ("A=1\nexport A\n", "A=1\n"),
        ("A=1\nexport A B=2\n", "A=1\nexport B=2\n"),
        ("export A\nA=1\n", "A=1\n"),
        ("set -a\nA=1\nset +a\n", "set -a\nset +a\n"),
        ("main() {\n  export A=1\n}\nmain\n", "main() {\n  :\n}\nmain\n"),
        ("{ export A=1; }\n", "{ :; }\n"),
        ("#export A=1\nexport A=2\n", "#export A=1\n"),
        ('export A="1\n2" # c\nB=1\n', "B=1\n"),
        ("export A=1\nunset A\n", "export A=1\nunset A\n"),
        ("export A=1 || true\n", ": || true\n"),
    ],
)
def test_unsetting_takes_the_line_or_only_the_assignment(script: str, edited: str) -> None:
    if edited is None:
        with pytest.raises(EditRefused):
            unset_in(script, "A")
    else:
        assert unset_in(script, "A") == edited


@pytest.mark.parametrize(
    ("script", "edited"),
    [
        ("", "export SGLANG_X_NEW=1\n"),
        ("export SGLANG_X_OLD=1\nexport NCCL=2\n", "export SGLANG_X_OLD=1\nexport SGLANG_X_NEW=1\nexport NCCL=2\n"),
        ("export SGLANG_X_A=1\nexport SGLANG_B=2\n", "export SGLANG_X_A=1\nexport SGLANG_X_NEW=1\nexport SGLANG_B=2\n"),
        ("export NCCL=2 # c\ncd .\n", "export NCCL=2 # c\nexport SGLANG_X_NEW=1\ncd .\n"),
        ("  export SGLANG_X_A=1\n", "  export SGLANG_X_A=1\n  export SGLANG_X_NEW=1\n"),
        ("export \\\n  SGLANG_X_A=1 \\\n  B=2\n", "export \\\n  SGLANG_X_A=1 \\\n  B=2\nexport SGLANG_X_NEW=1\n"),
        ("if x; then export SGLANG_X_A=1; fi\n", "if x; then export SGLANG_X_A=1; fi\nexport SGLANG_X_NEW=1\n"),
        ("cd .\n# the engine\n", "cd .\nexport SGLANG_X_NEW=1\n# the engine\n"),
        ("export SGLANG_X_A=1; cat <<E\nx\nE\n", "export SGLANG_X_A=1; cat <<E\nx\nE\nexport SGLANG_X_NEW=1\n"),
        ("(export SGLANG_X_A=1)\n", "(export SGLANG_X_A=1)\nexport SGLANG_X_NEW=1\n"),
        ("export SGLANG_X_A='1\n2'\n", "export SGLANG_X_A='1\n2'\nexport SGLANG_X_NEW=1\n"),
        ("SGLANG_X_A=1 \\\n", "export SGLANG_X_NEW=1\nSGLANG_X_A=1 \\\n"),
    ],
)
def test_a_new_knob_goes_beside_its_relatives_and_before_the_engine(script: str, edited: str) -> None:
    assert set_in(script, "SGLANG_X_NEW", "1") == edited


def test_a_new_knob_in_a_function_that_starts_the_engine() -> None:
    script = b'main() {\n    export SGLANG_A=1\n    exec python3 -m sglang.launch_server\n}\nmain "$@"\n'

    assert set_knob(script, "SGLANG_B", "2") == script.replace(b"A=1\n", b"A=1\n    export SGLANG_B=2\n")


def test_crlf_lines_keep_their_ends_and_give_the_exact_value() -> None:
    script = case("06_crlf.sh")

    edited = set_knob(script, "SGLANG_LOG_MS", "2")
    added = set_knob(script, "SGLANG_NEW", "x")

    assert edited == script.replace(b"=1\r\n", b"=2 #\r\n")
    assert added == script.replace(b"=1\r\n", b"=1\r\nexport SGLANG_NEW=x #\r\n")
    assert read_script(edited).value("SGLANG_LOG_MS") == "2"
    assert set_knob(edited, "SGLANG_LOG_MS", "1\r").count(b"\r\n") == 3
    assert set_knob(unset_knob(script, "SGLANG_LOG_MS"), "SGLANG_LOG_MS", "1\r") == script


def test_no_final_newline_stays_none() -> None:
    script = case("07_utf8_no_final_newline.sh")

    for edited in (
        set_knob(script, "SGLANG_NEW", "1"),
        unset_knob(script, "SGLANG_EXTRA"),
        set_knob(script, "SGLANG_EXTRA", "é"),
    ):
        assert edited.endswith(b"--port 30001")


@pytest.mark.parametrize(
    ("script", "line", "said"),
    [
        ("if x; then\n  export A=1\nfi\n", 2, "condition"),
        ("export A=1\nx && export A=2\n", 2, "condition"),
        ("for i in 1; do\nexport A=$i\ndone\n", 2, "condition"),
        ("eval 'export A=1'\n", 1, "only known when the script runs"),
        ("read -r A <<< x\nexport A\nread A <<< y\n", 3, "command"),
        ("export A=1\nexport B=$A/x\n", 2, "the value of B depends on A"),
        ('export A=1\nexport B="$(echo $A)"\n', 2, "the value of B depends on A"),
        ('export A=1\nif [ "$A" = 1 ]; then\nexport B=1\nfi\n', 3, "the value of B depends on A"),
        ("export A=1\nexport B='\n", 2, "quote is not closed"),
        ("export UID=1\nshopt -s lastpipe\n", 2, "lastpipe"),
        ("readonly A=1\nexport A\nA=2\n", 3, "readonly"),
        ("export A=(1 2)\nexport A\n", 1, "array"),
    ],
)
def test_what_is_not_safe_is_refused_with_the_line(script: str, line: int, said: str) -> None:
    data = (script + ENGINE).encode()
    with pytest.raises(EditRefused, match=said) as refusal:
        set_knob(data, "A", "7")

    assert f"line {line}:" in str(refusal.value)
    assert refusal.value.details["line"] == line


def test_unset_under_set_u_is_refused_while_the_script_uses_the_variable() -> None:
    script = b'set -eu\nexport A=1\n# $A is used\nexec python3 -m sglang.launch_server --port "$A"\n'

    with pytest.raises(EditRefused, match="line 4: 'set -u' is on"):
        unset_knob(script, "A")
    assert unset_knob(script.replace(b'"$A"', b'"${A:-1}"'), "A") == script.replace(b'"$A"', b'"${A:-1}"').replace(
        b"export A=1\n", b""
    )


@pytest.mark.parametrize(("name", "value"), [("1A", "1"), ("A B", "1"), ("A", "1\n2"), ("A", "1\0")])
def test_names_and_values_are_checked_first(name: str, value: str) -> None:
    with pytest.raises(PdopsError):
        set_knob(ENGINE.encode(), name, value)


def test_names_that_bash_computes_are_refused() -> None:
    with pytest.raises(EditRefused, match="bash computes"):
        set_knob(ENGINE.encode(), "SHLVL", "1")


def test_every_byte_of_a_latin1_file_stays() -> None:
    script = b"# gr\xfcn \xff\nexport A='\xe9' B=1\n" + ENGINE.encode()

    assert set_knob(script, "B", "2") == script.replace(b"B=1", b"B=2")
    assert set_knob(script, "A", "\udce8") == script.replace(b"\xe9", b"\xe8")


@pytest.mark.parametrize(
    ("script", "edited"),
    [
        ("export A=1\n", "export A=\n"),
        ('export A="1"  # c\n', 'export A=""  # c\n'),
        ("export A='1'\n", "export A=''\n"),
        ("export A=1 B=2\n", "export A= B=2\n"),
        ("export B=2\n", "export B=2\nexport A=\n"),
        ("export A=\n", "export A=\n"),
        ('export A=""\n', 'export A=""\n'),
    ],
)
def test_an_empty_value_is_one(script: str, edited: str) -> None:
    assert set_in(script, "A", "") == edited
    assert read_script((edited + ENGINE).encode()).value("A") == ""


def test_a_new_line_is_not_joined_to_the_one_above_it() -> None:
    assert set_in("export SGLANG_A=\\\n\n", "SGLANG_A_B", "2") == "export SGLANG_A=\\\n\nexport SGLANG_A_B=2\n"
