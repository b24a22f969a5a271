# SPDX-License-Identifier: Apache-2.0
"""lab: hosts, a network and small disks for a job. Each host is a network namespace, which a veth pair joins
to a bridge in one more namespace. The bridge's nftables drop the packets that are to be lost.

Descriptors of this process hold the namespaces, and the mounts are in its own mount namespace. So all of it
ends with the process. Needs root. Make a Lab while the process has one thread only; inside() moves the calling
thread alone. A Network is a lab without disks, and leaves the mounts as they are.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from pathlib import Path

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 0x40000, 2
HOSTS = 7  # for 4 nodes and the replacements of lost ones
HUB = "10.77.0.254"  # where a proxy may listen
FROM, TO = "iifname", "oifname"  # ways of a packet, as the bridge sees them
DISK_BYTES = 256 << 20

libc = ctypes.CDLL(None, use_errno=True)


def check(what, rc):
    if rc != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags=0, data=None):
    check(f"mount {target}", libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags,
                                        data.encode() if data else None))


def address(host):
    return f"10.77.0.{host + 1}"


def why_not():
    """The reason why no lab can be made here, or None."""
    for tool in ("ip", "nft"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    probe = subprocess.run(["unshare", "--net", "--mount", "sh", "-c",
                            "mount -t tmpfs none /mnt && ip link add name b type bridge && "
                            "nft 'add table bridge t; add chain bridge t c "
                            "{ type filter hook forward priority 0; }; "
                            "add rule bridge t c numgen random mod 100 < 5 drop'"],
                           capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else (
        f"no namespaces with a bridge and nftables: {(probe.stderr.strip() or 'no reason').splitlines()[0]}")


class Network:
    def __init__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.hub = self._new_namespace()
        self.hosts = [self._new_namespace() for _ in range(HOSTS)]
        self._join_hosts()
        self.cut, self.loss = set(), 0

    def _new_namespace(self):
        """Makes a namespace and leaves it at once; the returned descriptor keeps it."""
        check("unshare", libc.unshare(CLONE_NEWNET))
        fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        check("setns", libc.setns(self.home, CLONE_NEWNET))
        return fd

    def _join_hosts(self):
        lines = ["link set lo up", "link add br0 type bridge", "link set br0 up",
                 f"addr add {HUB}/24 dev br0"]
        for host, fd in enumerate(self.hosts):
            lines += [f"link add v{host} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{fd}",
                      f"link set v{host} master br0 up"]
        self._ip(self.hub, lines)
        for host, fd in enumerate(self.hosts):
            self._ip(fd, ["link set lo up", "link set eth0 up",
                          f"addr add {address(host)}/24 dev eth0"])
            # BBR, where the machine has it, takes up to half a minute to send a gradient after 1.6 s of losses.
            with self.inside(fd):
                Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno", encoding="ascii")

    def _ip(self, namespace, lines):
        with self.inside(namespace):
            subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)

    @contextlib.contextmanager
    def inside(self, namespace):
        """Moves the calling thread, and what it starts, into the namespace for a while."""
        check("setns", libc.setns(namespace, CLONE_NEWNET))
        try:
            yield
        finally:
            check("setns", libc.setns(self.home, CLONE_NEWNET))

    def filter(self, cut, loss):
        """From now on these packets are lost: cut has pairs of a way, FROM or TO, and a host; and `loss` percent of the
        rest."""
        if (cut, loss) == (self.cut, self.loss):
            return
        self.cut, self.loss = cut, loss
        rules = []
        for way, host in sorted(cut):
            rules.append(f'{way} "v{host}" drop')
        if loss:
            rules.append(f"numgen random mod 100 < {loss} drop")
        text = "add table bridge chaos\ndelete table bridge chaos\nadd table bridge chaos\n"
        for hook in ("forward", "input", "output"):  # the last two: packets of the relay on the hub
            text += f"add chain bridge chaos {hook}_ {{ type filter hook {hook} priority 0; }}\n"
            text += "".join(f"add rule bridge chaos {hook}_ {rule}\n" for rule in rules)
        with self.inside(self.hub):
            subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)

    def link(self, node, state):
        """Sets the link of the node "up" or "down"; then its own interface has no carrier, as without its cable."""
        self._ip(self.hub, [f"link set v{node} {state}"])

    def close(self):
        for fd in (self.home, self.hub, *self.hosts):
            os.close(fd)


class Lab(Network):
    """root: a directory on which the lab mounts a file system of its own."""

    def __init__(self, root):
        check("unshare", libc.unshare(CLONE_NEWNS))
        mount("none", "/", "none", MS_REC | MS_PRIVATE)
        self.root = root
        mount("tmpfs", self.root, "tmpfs", data="size=2g")
        super().__init__()

    def disk(self, path):
        """Mounts an empty disk there, small enough to be filled."""
        path.mkdir()
        mount("tmpfs", path, "tmpfs", data=f"size={DISK_BYTES}")

    def remove(self, folder, disks):
        for path in disks:
            check(f"umount {path}", libc.umount2(os.fsencode(path), MNT_DETACH))
        shutil.rmtree(folder)
