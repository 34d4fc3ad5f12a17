# SPDX-License-Identifier: Apache-2.0
"""A file system that never answers, as a server that is gone leaves it on a node: all that touch it sleep for good.

It is a FUSE file system whose daemon takes all requests and answers none but the first, the kernel's own greeting. Its
users are in uninterruptible sleep (state D), from which not even SIGKILL wakes them, which is worse than NFS. They wake
with an error when the daemon ends, at the latest with its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cluster import Cluster

# <linux/fuse.h>: fuse_in_header begins with u32 len, u32 opcode, u64 unique; the answer to FUSE_INIT is fuse_out_header
# (u32 len, i32 error, u64 unique) and fuse_init_out, 64 bytes that begin with the protocol's version.
_DAEMON = """
import ctypes, os, stat, struct, sys
if not os.path.exists("/dev/fuse"):
    os.mknod("/dev/fuse", stat.S_IFCHR | 0o600, os.makedev(10, 229))
descriptor = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={descriptor},rootmode=40755,user_id=0,group_id=0,allow_other"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hung", os.fsencode(sys.argv[1]), b"fuse", 0, options.encode()) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
unique = struct.unpack_from("<IIQ", os.read(descriptor, 1 << 17))[2]
os.write(descriptor, struct.pack("<IiQ", 16 + 64, 0, unique) + struct.pack("<II", 7, 31).ljust(64, bytes(1)))
print("hangs", flush=True)
while True:
    os.read(descriptor, 1 << 17)
"""


@contextmanager
def hung(lab: Cluster, node: str, path: Path) -> Iterator[None]:
    """As long as it lasts, whoever uses `path` on that node hangs; all that was there before is back afterwards.

    Those that hang at its end get an error (ENOTCONN), where a server that is back would answer.
    """
    daemon = lab.start(["/usr/bin/python3", "-c", _DAEMON, str(path)], host=node, user="root")
    daemon.wait_output("hangs", 10)
    try:
        yield
    finally:
        lab.run(["umount", "--lazy", str(path)], host=node, user="root")
        daemon.kill()
