# SPDX-License-Identifier: Apache-2.0
"""Builds the extension from its own sources and libpch's, which pyproject.toml cannot express.

`src` and `include` are links to the project's folders; the source distribution holds copies of the
files it needs. All files of libpch and the rooms below it are compiled. The linker then drops the
functions that are not called, so this script needs no list of files.
"""

from glob import glob

from setuptools import Extension, setup

ROOMS = ("libpch", "wire", "base")
SOURCES = sorted(glob("ext/*.c") + [path for room in ROOMS for path in glob(f"src/{room}/*.c")])

setup(
    ext_modules=[Extension(
        "pch._pch",
        SOURCES,
        depends=glob("ext/*.h") + [path for room in ROOMS for path in glob(f"src/{room}/*.h")],
        include_dirs=["ext", "include", "src"],
        define_macros=[("_GNU_SOURCE", None), ("Py_LIMITED_API", "0x030A0000")],
        py_limited_api=True,
        extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-fno-strict-aliasing", "-ffunction-sections",
                            "-fdata-sections", "-fstack-protector-strong"],
        extra_link_args=["-pthread", "-Wl,--gc-sections", "-Wl,-z,nodelete,-z,relro,-z,now",
                         "-Wl,--strip-debug,--version-script=ext/pch.map"],
    )],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
