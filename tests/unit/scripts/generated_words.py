# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Values of exports in all the forms that bash has for a word, for hypothesis; ``generated.py`` makes scripts of them."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("SGLANG_AA", "SGLANG_AA_BB", "SGLANG_CC", "UCX_DD", "EE")
HELPERS = ("TT", "PORT")
_ANY = st.sampled_from(NAMES + HELPERS)
NAME = st.sampled_from(NAMES)

_BARE = st.sampled_from(
    [
        "1",
        "0",
        "512",
        "a,b",
        "x/y",
        "a=b",
        "x:y",
        "-",
        "",
        "{a}",
        "é",
        "a#b",
        "a!b",
        "%",
        "@",
        "a^b",
        "]",
        "1.5",
        "=",
        "a{b",
    ]
)
_SINGLE = st.sampled_from(
    ["''", "'a b'", "'#no'", "'\"'", "'$TT'", "'a;b'", "'a\\'", '\'{"k": "v"}\'', "'a\nb'", "'`x`'", "'export EE=9'"]
)
_DOUBLE = st.sampled_from(
    [
        '""',
        '"a b"',
        '"#no"',
        '"it\'s"',
        '"\\$x"',
        '"a\\"b"',
        '"a\\\\b"',
        '"\\x"',
        '"a\\\nb"',
        '"a\nb"',
        '"\\`"',
        '"$"',
        '"*"',
        '"a $ b"',
    ]
)
_ESCAPED = st.sampled_from(["\\ ", "\\'", '\\"', "\\$", "\\\\", "\\#", "\\\n", "\\;", "\\a"])
_ANSI = st.sampled_from(
    ["$'a\\tb'", "$'\\x41'", "$'\\101'", "$'it\\'s'", "$'a\\nb'", "$'\\\\'", "$'\\q'", "$'a\\0b'c", '$"a b"']
)
_ODD = st.sampled_from(["~", "~/x", "a:~", "{1,2}", "*", "a?", "[a]", "{1..3}", "{a,b}x", "{}", "~root", "a~", "x=~"])


@st.composite
def _expansion(draw: st.DrawFn) -> str:
    name = draw(_ANY)
    word = draw(st.sampled_from(["d", "", "d e", "'q r'", '"s"', "$EE", "${TT:-t}", "a\\}b", "it's"]))
    form = draw(
        st.sampled_from(
            [
                "$N",
                "${N}",
                "${N:-W}",
                "${N-W}",
                "${N:+W}",
                "${N+W}",
                "${N:=W}",
                "${N=W}",
                "${#N}",
                "${N#a}",
                "${N%%b*}",
                "${N/a/b}",
                "$(echo hi)",
                "`echo hi`",
                "$((1+2))",
                '$(echo "$N")',
                "${N:0:2}",
                "${N^^}",
                "$((ZZ+1))",
                "$(echo ')' # )\n)",
                "$(case a in a) echo x;; esac)",
                "${!ZZ*}",
                "$#",
                "$1",
                "${N@Q}",
            ]  # fmt: skip
        )
    )
    if word == "it's" and "W" in form:
        word = "d"
    return form.replace("N", name).replace("W", word)


@st.composite
def _quoted_expansion(draw: st.DrawFn) -> str:
    before, after = draw(st.sampled_from(["", "a ", "/x:", "'"])), draw(st.sampled_from(["", " b", ":/y", "#"]))
    return f'"{before}{draw(_expansion())}{after}"'


@st.composite
def value(draw: st.DrawFn) -> str:
    count = draw(st.sampled_from([1, 1, 1, 2, 3]))
    piece = st.one_of(_BARE, _BARE, _SINGLE, _DOUBLE, _ESCAPED, _ANSI, _ODD, _expansion(), _quoted_expansion())
    return "".join(draw(piece) for _ in range(count))


@st.composite
def assignment(draw: st.DrawFn, names: st.SearchStrategy[str] = NAME) -> str:
    operator = draw(st.sampled_from(["=", "=", "=", "=", "=", "+="]))
    return draw(names) + operator + draw(value())
