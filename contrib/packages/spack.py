# SPDX-License-Identifier: Apache-2.0
"""A recipe for Spack: packages/pchrun/package.py of a repository of yours."""

from spack.package import *


class Pchrun(MesonPackage):
    """Runs a training command that survives preemption: every rank saves one agreed step, and the job resumes there."""

    homepage = "https://pchrun.example"
    git = "file:///path/to/a/clone/of/pchrun"

    license("Apache-2.0")

    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("meson@1.0.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("curl@7.66:")
    depends_on("jansson@2.13:")
    depends_on("libevent@2.1.12:")
    depends_on("ncurses@6.0:")
    depends_on("openssl@1.1.1:")

    def meson_args(self):
        return ["-Dtests=disabled", "-Dpython=disabled", "-Dstatic_libs=false"]

    def setup_run_environment(self, env):
        """pchrun loads these two when it needs them."""
        for name in ("openssl", "curl"):
            env.prepend_path("LD_LIBRARY_PATH", self.spec[name].prefix.lib)
