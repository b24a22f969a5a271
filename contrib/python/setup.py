# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml cannot say: the extension, of its own sources and libpch's.

`src` and `include` are links to the project's folders; the source distribution holds copies of what
is needed of them. All of the rooms below libpch is compiled, and what is not called is left out again
by the linker, so that no list of files has to be kept here.
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
