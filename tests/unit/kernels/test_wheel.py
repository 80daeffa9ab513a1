# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A wheel is read whole and believed in nothing; a good one is described as it is."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from module_utils.kernel_package.requirement import fits, requirement_of
from module_utils.kernel_package.wheel import read_wheel
from module_utils.pdops_error import PdopsError
from tests.kernel_wheel import SOURCES, make_wheel

INFO = "pdops_kernels-0.1.0.dist-info"


def test_a_good_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    wheel = read_wheel(str(path), sha256)
    assert (wheel.name, wheel.version, wheel.requires_python) == ("pdops_kernels", "0.1.0", ">=3.10")
    assert wheel.folder == f"0.1.0-{sha256[:8]}"
    assert wheel.files["pdops_kernels/plan.py"] == (SOURCES / "plan.py").read_bytes()
    assert read_wheel(str(path), called="pdops_kernels-0.1.0-py3-none-any.whl").hashes == wheel.hashes


def test_another_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PdopsError, match="is not the wheel that was meant"):
        read_wheel(str(make_wheel(tmp_path)), "0" * 64)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"pdops_kernels/plan.py": b"altered = True\n"}, "plan.py is not what its RECORD says"),
        ({"pdops_kernels/more.py": b"x = 1\n"}, "more.py, which its RECORD does not list"),
        ({"../evil.py": b""}, "would land outside"),
        ({"/etc/evil.py": b""}, "would land outside"),
        ({"pdops_kernels/../../evil.py": b""}, "would land outside"),
        ({"pdops_kernels/..\\evil.py": b""}, "would land outside"),
        ({"c:/evil.py": b""}, "would land outside"),
        ({"pdops_kernels//evil.py": b""}, "would land outside"),
        ({"PDOPS_kernels/plan.py": b""}, "twice"),
        ({"evil.pth": b"import evil"}, "not pure Python in its own package"),
        ({"pdops_kernels-0.1.0.data/scripts/evil": b""}, "not pure Python in its own package"),
    ],
)
def test_a_spoiled_wheel_is_refused_with_the_name_of_the_file(
    tmp_path: Path, more: dict[str, bytes], words: str
) -> None:
    with pytest.raises(PdopsError, match=words.replace(".", r"\.")):
        read_wheel(str(make_wheel(tmp_path, after_record=more)))


def test_a_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        member = zipfile.ZipInfo("pdops_kernels/link.py")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(PdopsError, match="no regular file"):
        read_wheel(str(path))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({f"{INFO}/WHEEL": None}, "has no .*WHEEL"),
        ({f"{INFO}/WHEEL": "Root-Is-Purelib: false\n"}, "not of pure Python"),
        ({f"{INFO}/METADATA": "Name: other\nVersion: 0.1.0\n"}, "holds other 0.1.0"),
    ],
)
def test_what_is_no_wheel_of_kernels(tmp_path: Path, edit: dict[str, str | None], words: str) -> None:
    with pytest.raises(PdopsError, match=words):
        read_wheel(str(make_wheel(tmp_path, edit=edit)))


def test_files_that_are_no_wheels(tmp_path: Path) -> None:
    torn = tmp_path / "pdops_kernels-0.1.0-py3-none-any.whl"
    torn.write_bytes(make_wheel(tmp_path / "whole").read_bytes()[:-400])
    with pytest.raises(PdopsError, match="is damaged"):
        read_wheel(str(torn))
    native = tmp_path / "x-1-cp311-cp311-linux_x86_64.whl"
    native.write_bytes(b"")
    with pytest.raises(PdopsError, match="not named like a wheel of pure Python"):
        read_wheel(str(native))
    with pytest.raises(PdopsError, match="cannot be read"):
        read_wheel(str(tmp_path / "none.whl"))


@pytest.mark.parametrize(
    ("version", "condition", "good"),
    [
        ("3.11.7", ">=3.10", True),
        ("3.9.18", ">=3.10", False),
        ("3.9.0", "<3.10,>=3.7.1", True),
        ("3.10.0", "<3.10,>=3.7.1", False),
        ("3.7.0", ">=3.7.1,<3.10", False),
        ("3.7.1+git1", "==3.7.1", True),
        ("3.8.2", "~=3.8.0", True),
        ("3.9.0", "~=3.8.0", False),
        ("3.8.2", "==3.8.*", True),
        ("1.0", "", True),
    ],
)
def test_conditions_on_versions(version: str, condition: str, good: bool) -> None:
    assert fits(version, condition) is good


def test_requirements_are_found_by_their_name() -> None:
    lines = ("triton<3.10,>=3.7.1", 'pytest>=8; extra == "test"')
    assert requirement_of(lines, "triton") == "<3.10,>=3.7.1"
    assert requirement_of(lines, "torch") is None
    with pytest.raises(PdopsError, match="not understood"):
        fits("1", ">=1.0b1")
