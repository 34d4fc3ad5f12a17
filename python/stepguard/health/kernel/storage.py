# SPDX-License-Identifier: Apache-2.0
"""Disks, local file systems, and those of the network. What a local file system says counts to the source nvme, as all
local storage does, whatever the disk or its controller."""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel import users_words
from stepguard.health.kernel.sighting import Sighting, by_catalogue

Table = list[tuple[str, re.Pattern[str]]]
_DISK = r"(?P<device>[\w!-]{1,32})"
_NVME = r"nvme (?P<device>nvme\d{1,4}): "
# A device that is a file: a container's image, which users make, and may make so that the kernel finds faults in it.
_IMAGE = re.compile(r"loop\d")
_BLOCK = r"(?:blk_update_request: |print_req_error: )?"
_VOLUME = r"(?P<device>[^):\s]{1,32})"
# xfs_do_force_shutdown, fs/xfs/xfs_fsops.c: before 5.14, since then, and since 5.15.
_XFS_REASON = (
    r"(?:(?:Log |Metadata )?I/O [Ee]rror|Corruption of (?:in-memory data|on-disk metadata)|Block device removal"
    r"|All device paths lost)"
)
# Without SHUTDOWN_FORCE_UMOUNT (4): an administrator who asks for a shutdown is told of an I/O error too, since 5.15.
_XFS_FLAGS = r"\(0x[0-9a-f]{0,7}[012389ab]\)"
# A controller's, without the function 0.
_SLOT = r"(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.0"
_TARGET = r"(?P<device>[\w-]{1,64})"
# The process, and where in the source.
_PLACE = r"\d{1,10}:\d{1,5}:\([\w.-]{1,64}:\d{1,6}:\w{1,128}\(\)\)"
_SERVES = r"[\w-]{1,48}-(?:OST|MDT)[0-9a-f]{4}"
_NID = r"[\w.:@-]{1,64}"
_LUSTRE_ERROR = r"LustreError: .{0,160}"
_LUSTRE_SAYS = r"Lustre: .{0,160}"


def _table(*rows: tuple[str, str]) -> Table:
    """Code and pattern; the first that fits counts."""
    return [(code, re.compile(pattern)) for code, pattern in rows]


_DISKS = _table(
    ("lost", _NVME + r"(?:[Rr]emoving after probe failure|Disabling device after reset failure)"),
    ("controller-down", _NVME + r"(?:controller is down|Device not ready|I/O .{0,64}(?:reset|disable) controller)"),
    ("timeout", _NVME + r"I/O .{0,64}timeout"),
    ("medium-error", _BLOCK + rf"critical medium error, dev {_DISK}, sector"),
    ("io-error", _BLOCK + rf"(?:critical \w{{1,12}} |I/O )error, dev {_DISK}, "),
    ("io-error", rf"Buffer I/O error on dev(?:ice)? {_DISK}, "),
    ("io-error", r"(?P<device>nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}): I/O Cmd\(.{0,64}I/O Error"),
    ("disk-failed", rf"md/raid\d{{0,2}}:[\w-]{{1,32}}: Disk failure on {_DISK}, disabling device"),
    ("disk-failed", r"(?P<device>ata\d{1,4}\.\d{2}): (?:disable device|disabled)$"),
    # drivers/scsi: the driver resets a controller in this state; one that reports something names it itself.
    ("controller-down", r"(?P<device>mpt[23]sas_cm\d{1,3}): (?:fault|coredump)_state\(0x"),
    ("controller-down", rf"megaraid_sas {_SLOT}: .{{0,64}}(?:FW in FAULT state|Adapter is DEAD)"),
    ("controller-fault", rf"megaraid_sas {_SLOT}: \d{{1,10}} \([^/]{{1,32}}/0x[0-9a-f]{{4}}/(?:FATAL|DEAD)\) - "),
    ("path-failed", r"device-mapper: multipath: (?:(?P<device>\d{1,4}:\d{1,7}): )?Failing path \d"),
    ("disk-error", r"(?P<device>ata\d{1,4}(?:\.\d{2})?): exception Emask 0x"),
)
_FILE_SYSTEMS = _table(
    ("read-only", rf"EXT4-fs \({_VOLUME}\): Remounting filesystem read-only"),
    # fs/ext4/super.c: an error of before, and nobody has looked since.
    ("fs-error", rf"EXT4-fs \({_VOLUME}\): (?:warning: mounting fs with errors|error count since last fsck: [1-9])"),
    ("fs-error", rf"EXT4-fs (?:error|warning) \(device {_VOLUME}\)"),
    ("fs-error", rf"(?:Aborting journal on device|JBD2: .{{0,48}} on device) {_DISK}"),
    ("fs-error", rf"JBD2: (?:Error -\d{{1,4}}|I/O error)(?: detected)? when updating journal superblock for {_DISK}"),
    ("io-error", rf"JBD2: Detected IO errors while flushing file data on {_DISK}"),
    ("shutdown", rf"XFS \({_VOLUME}\): {_XFS_REASON}(?: [Dd]etected)?\. {{1,2}}Shutting down filesystem"),
    ("shutdown", rf"XFS \({_VOLUME}\): {_XFS_REASON} {_XFS_FLAGS} detected at "),
    ("shutdown", rf"XFS \({_VOLUME}\): Filesystem has been shut down due to log error {_XFS_FLAGS}"),
    ("fs-error", rf"XFS \({_VOLUME}\): .{{0,32}}(?:[Cc]orruption|(?:metadata|log) I/O error|Internal error)"),
    (
        "read-only",
        r"BTRFS:? (?:info|notice|warning|error|critical|alert)?:? ?"
        rf"\(device {_VOLUME}(?:: state \w{{1,8}})?\): forced readonly",
    ),
    ("fs-error", rf"BTRFS:? (?:error|critical) \(device {_VOLUME}"),
)
_LUSTRE = _table(
    ("lbug", rf"LustreError: {_PLACE} LBUG\b"),
    ("eviction", _LUSTRE_ERROR + rf"This client was evicted by {_TARGET}"),
    ("connection-lost", _LUSTRE_SAYS + rf"Connection to {_TARGET} \(at .{{1,64}}\) was lost"),
    # Newer releases call what is restored by its server's address; the target's name stands in that of the client.
    ("connection-restored", rf"Lustre: (?P<device>{_SERVES})-[\w.-]{{1,48}}: Connection restored to "),
    ("connection-restored", _LUSTRE_SAYS + rf"Connection restored to (?P<device>{_NID})"),
    ("rdma-timeout", rf"LNet(?:Error)?: {_PLACE} Timed out RDMA with (?P<device>{_NID})"),
)

# The servers' names are the administrator's: no user mounts one.
_NFS = _table(
    ("not-responding", r"nfs: server (?P<device>\S{1,255}) not responding"),
    ("responding", r"nfs: server (?P<device>\S{1,255}) OK$"),
)
# Ceph's client and its disks (fs/ceph/mds_client.c, since 6.7 with the cluster; drivers/block/rbd.c), BeeGFS, SMB
# (fs/smb/client/connect.c). All connect anew. That a storage daemon is down (libceph: osd12 down) all clients of a
# cluster are told, and others have its data.
_CEPH = r"ceph: (?:\[[0-9a-f-]{36} \d{1,20}\]: )?"
_NETWORK_FILE_SYSTEMS = _table(
    ("not-responding", _CEPH + r"(?P<device>mds\d{1,4}) (?:hung|caps stale)$"),
    ("responding", _CEPH + r"(?P<device>mds\d{1,4}) (?:came back|caps renewed)$"),
    ("not-responding", r"rbd: (?P<device>rbd\d{1,5}): encountered watch error: -\d{1,4}$"),
    (
        "not-responding",
        users_words.BEEGFS + r"(?:[\w.-]{1,64}: )?[\w ()-]{1,64}: (?:Communication error: )?"
        r"(?:Receive timed out|Received disconnect) from: (?P<device>[\w.-]{1,64}(?: [\w.-]{1,64})?)",
    ),
    ("not-responding", r"CIFS:? VFS: (?:Server:? ?|\\\\)(?P<device>\S{1,255}) has not responded in \d{1,9} seconds"),
)


def disks(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The error of a disk."""
    return _first(_DISKS, "nvme", text, catalogue)


def file_systems(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The error of a local file system."""
    return _first(_FILE_SYSTEMS, "nvme", text, catalogue)


def lustre(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What Lustre's client says."""
    return _first(_LUSTRE, "lustre", text, catalogue)


def nfs(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the NFS client says of a server."""
    return _first(_NFS, "nfs", text, catalogue)


def network_file_systems(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the clients of other network file systems say of a server."""
    return _first(_NETWORK_FILE_SYSTEMS, "netfs", text, catalogue)


def _first(table: Table, source: str, text: str, catalogue: Catalogue) -> list[Sighting]:
    for code, pattern in table:
        if found := pattern.match(text):
            device = found.groupdict().get("device") or ""
            if _IMAGE.match(device):
                code = "image-error"
            return [by_catalogue(catalogue, source, code, device)]
    return []
