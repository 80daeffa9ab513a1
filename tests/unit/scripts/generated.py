# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Serve scripts out of thin air, in all the forms that the reader should know, for hypothesis."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from .generated_words import HELPERS, NAME, NAMES, assignment

_GAP = st.sampled_from([" ", " ", " ", "  ", "\t", " \\\n  ", " \\\n"])
_COMMENT = st.sampled_from(["", "", "", " # why", "\t# it's \"odd", " #", "  #export EE=3", " # `"])


@st.composite
def _export(draw: st.DrawFn) -> str:
    command = draw(
        st.sampled_from(
            ["export"] * 8
            + [
                "declare -x",
                "typeset -x",
                "declare -gx",
                "export -n",
                "readonly",
                "declare",
                "export --",
                "declare +x",
                "builtin export",
                "command export",
                "declare -rx",
                "local",
                "local -x",
                "\\export",
            ]  # fmt: skip
        )
    )
    parts = [command]
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        parts.append(draw(st.one_of(assignment(), assignment(), assignment(), NAME, _quoted_export())))
    text = parts[0]
    for part in parts[1:]:
        text += draw(_GAP) + part
    return text


@st.composite
def _quoted_export(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(['"N=a b"', "'N=c'", '"N"=d', "N'='e", '"N=$TT"', 'N"=f"'])).replace("N", draw(NAME))


_PLAIN = st.one_of(
    assignment(st.sampled_from(NAMES + HELPERS)),
    assignment(st.sampled_from(HELPERS)),
    st.builds(lambda one, other: f"{one} {other}", assignment(), assignment()),
)


@st.composite
def _other(draw: st.DrawFn) -> str:
    form = draw(
        st.sampled_from(
            [
                "unset N",
                "unset -v N M",
                "echo export N=5",
                "echo 'export N=5'",
                ": ${N:=x}",
                ': "${N:=a b}"',
                "read N <<< x",
                "printf -v N y",
                "exec > /dev/null",
                "exec 2>&1",
                "cd .",
                "eval 'export N=7'",
                'eval "N=8"',
                "set -a",
                "set +a",
                "set -e",
                "source ./x.sh",
                ". ./y.sh",
                "N=1 true",
                "N=1 M=2 echo x",
                "(( TT = 3 ))",
                "(( TT++ ))",
                "let TT=4",
                "[[ $N =~ ^(a|b)$ ]]",
                '[ -n "$N" ]',
                "ARR=(a \"b c\" 'export N=1' #x\n)",
                "ARR+=(--port $PORT)",
                "N=(x y)",
                "N[0]=z",
                "trap 'echo bye' EXIT",
                "alias ll='ls -l'",
                "true",
                "wait",
                "f",
                "g a b",
                "N=1 f",
                "shopt -s extglob",
                "umask 022",
                "test -f /nope",
                "export -p",
                "export -f f",
                "python3 -c 'import sys'",
                "hash -r",
                "export A-B=1",
                "set -o allexport",
                "set -- a b",
                "mapfile -t N < /dev/null",
                "readonly N",
                "unset f",
                "break",
                "return",
                "getopts a N",
                "! true",
                "time true",
                "coproc cat",
                "declare -ix N=1+2",
                "declare -i N",
                ":",
                'echo "a\nexport N=1\n"',
                "echo a > out.txt",
                "cat < /dev/null > x 2>&1",
            ]  # fmt: skip
        )
    )
    return form.replace("M", draw(NAME)).replace("N", draw(NAME))


_CONDITION = st.sampled_from(
    [
        "true",
        "false",
        '[ -n "$TT" ]',
        '[ "$EE" = 1 ]',
        "[[ $SGLANG_AA == 1* ]]",
        "! true",
        "test -z $TT",
        "export EE=1",
        "[ x = x ]",
        "f",
        "grep -q x /dev/null",
        "(( 1 ))",
        "TT=5",
    ]  # fmt: skip
)


@st.composite
def _document(draw: st.DrawFn) -> str:
    mark = draw(st.sampled_from(["EOF", "'EOF'", '"EOF"', "\\EOF", "E"]))
    end = mark.strip("'\"\\")
    strip = draw(st.sampled_from(["<<", "<<", "<<-", "<< "]))
    body = draw(
        st.sampled_from(
            [
                "export SGLANG_AA=9\n",
                "it's\n",
                "$TT\n",
                'a\n"b\n',
                "",
                "x\\\n",
                "EOFX\n EOF\n",
                "$(echo 'x')\n",
                "#export EE=1\n",
                "\\$x `echo y`\n",
            ]
        )
    )
    tab = draw(st.sampled_from(["", "\t"])) if strip == "<<-" else ""
    command = draw(
        st.sampled_from(["cat D > notes", "cat D", "cat > notes D", "cat D | cat", "cat D && export EE=4", "read TT D"])
    )
    return command.replace("D", strip + mark) + "\n" + tab + body.replace("\\\n", "\\ \n") + tab + end


def _indented(text: str, indentation: str) -> str:
    if "<<" in text or "'" in text or '"' in text or "\\" in text:
        return text
    return "\n".join(indentation + line for line in text.split("\n"))


@st.composite
def _block(draw: st.DrawFn, depth: int, fewest: int = 1) -> str:
    lines = draw(st.lists(statement(depth), min_size=fewest, max_size=3))
    indentation = draw(st.sampled_from(["", "    ", "\t"]))
    return "".join(_indented(line, indentation) + "\n" for line in lines)


@st.composite
def _compound(draw: st.DrawFn, depth: int) -> str:
    body = draw(_block(depth - 1))
    other = draw(_block(depth - 1))
    condition = draw(_CONDITION)
    form = draw(
        st.sampled_from(
            [
                "if C; then\nBfi",
                "if C; then\nBelse\nOfi",
                "if C\nthen\nBelif C; then\nOfi",
                "if C; then\nBelif false; then\nOelse\nOfi",
                "for x in 1 2; do\nBdone",
                "for x\ndo\nBdone",
                "while false; do\nBdone",
                "until C; do\nBbreak\ndone",
                "while read -r l; do\nBdone < /dev/null",
                "case $TT in\na) BX;;\n*)\nO;;\nesac",
                'case "$EE" in\n  1|2)\nB;;\n  (3)\nO\n;;\nesac',
                "{\nB}",
                "{\nB} > /dev/null",
                "(\nB)",
                "(\nB) &",
                "f() {\nB}",
                "function f {\nB}",
                "g () (\nB)",
                "f() { C; }\nf",
                "f() {\nB}\nf",
                "f() {\nB}\ng() {\nO}\nf\ng",
                "if C; then f; fi",
                "C && {\nB}",
                "C || {\nB}",
                "{\nB} | cat",
                "f() {\n local SGLANG_AA=3\nB}\nf",
                "for ((i=0;i<2;i++)); do\nBdone",
                "if C; then\nBexit 0\nfi",
                "if false; then\nexec true\nfi",
                "until true\ndo\nBdone",
            ]  # fmt: skip
        )
    )
    return (
        form.replace("C", "\0")
        .replace("B", "\1")
        .replace("O", "\2")
        .replace("\0", condition)
        .replace("\1", body)
        .replace("\2", other)
        .replace("X;;", ";;")
    )


@st.composite
def _joined(draw: st.DrawFn) -> str:
    left = draw(st.one_of(_export(), _PLAIN, _CONDITION))
    right = draw(st.one_of(_export(), _PLAIN, _CONDITION))
    operator = draw(st.sampled_from([" && ", " || ", "; ", ";", " | ", " & ", " &&\n  ", " | cat; "]))
    return left + operator + right


@cache
def statement(depth: int = 2) -> st.SearchStrategy[str]:
    simple = [
        _export(), _export(), _export(), _export(), _PLAIN, _PLAIN, _other(), _other(), _joined(), _document(),
        st.builds(lambda text: "#" + text, _export()), st.builds(lambda text: "# " + text, _export()),
        st.sampled_from(["# don't touch", "", "   ", "#", "# \"", "# export"]),
    ]  # fmt: skip
    if depth > 0:
        simple += [_compound(depth), _compound(depth)]
    return st.builds(
        lambda text, comment: text if "\n#" in text or "<<" in text else text + comment, st.one_of(*simple), _COMMENT
    )


_START = st.sampled_from(
    [
        "exec python3 -m sglang.launch_server --port 1",
        "exec numactl --membind=0 \\\n  python -m sglang.launch_server",
        "exec python -m sglang.launch_server",
        "python3 -m sglang.launch_server --port 1",
        "SGLANG_AA=p exec python -m sglang.launch_server",
        "UCX_DD='a b' EE=1 \\\nexec python3 -m sglang.launch_server",
        "exec env EE=3 python -m sglang.launch_server",
        "exec env -u EE SGLANG_CC=q python -m sglang.launch_server",
        "env EE=3 python -m sglang.launch_server",
        "nohup python3 -m sglang.launch_server > log 2>&1 &\nwait",
        "python3 -m sglang.launch_server 2>&1 | cat",
        "(exec python3 -m sglang.launch_server)",
        'main() {\n  export SGLANG_AA=m\n  exec python3 -m sglang.launch_server "$@"\n}\nmain "$@"',
        'exec "python3" -m sglang.launch_server',
        "EE=5 python3 -m sglang.launch_server",
        "exec -a engine python3 -m sglang.launch_server",
        "{ exec python3 -m sglang.launch_server; }",
        'if [ -n "$TT" ]; then\n  exec python3 -m sglang.launch_server --a\nelse\n  exec python3 -m sglang.launch_server --b\nfi',
        "true && exec python3 -m sglang.launch_server",
        "exec python3 -m sglang.launch_server --x \"$EE\" --y '${SGLANG_AA}'",
        "exec numactl env SGLANG_CC=1 python3 -m sglang.launch_server",
    ]  # fmt: skip
)


@st.composite
def script(draw: st.DrawFn) -> bytes:
    head = draw(
        st.sampled_from(
            [
                "#!/bin/bash\n",
                "#!/usr/bin/env bash\nset -euo pipefail\n",
                "",
                "#!/bin/bash\nset -a\n",
                "#!/bin/bash\nset -e\n",
            ]
        )
    )
    lines = draw(st.lists(statement(2), min_size=0, max_size=7))
    separators = [draw(st.sampled_from(["\n", "\n", "\n", "\n\n", "\n  "])) for _ in lines]
    tail = draw(
        st.sampled_from(
            ["", "\n", "\n", "\n# the end\n", "\nexport EE=dead\n", "\nfi\n", "\nexport SGLANG_AA=dead SGLANG_CC=1"]
        )
    )
    text = head + "".join(line + separator for line, separator in zip(lines, separators)) + draw(_START) + tail
    if draw(st.integers(0, 11)) == 0:
        text = text.replace("\n", "\r\n")
    data = text.encode()
    if draw(st.integers(0, 3)) == 0 and data:
        for _ in range(draw(st.integers(1, 2))):
            at = draw(st.integers(0, len(data)))
            noise = draw(st.sampled_from([b"'", b'"', b"`", b"\\", b"$", b"#", b" ", b"\n", b";", b"(", b")", b"{", b"}", b"&", b"|", b"=", b"\t",
                                          b"\xa0", b"\xff", b"<", b">", b"!", b"export ", b"\r", b"[", b"~", b"*"]))  # fmt: skip
            data = data[:at] + noise + (data[at + 1 :] if draw(st.booleans()) else data[at:])
    return data


ASKED = st.sampled_from(
    [
        "512",
        "a b",
        "",
        "it's",
        'x"y',
        "$TT",
        "`x`",
        "a\\b",
        '{"k": "v"}',
        "é",
        "-1",
        "~",
        "a#b",
        "#x",
        "*",
        "{1,2}",
        "a'b\"c$d",
        "\t",
        "a\rb",
        "1\r",
        "x=y",
        "!",
        None,
        None,
        None,
        None,
    ]
)
