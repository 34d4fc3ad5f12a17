# SPDX-License-Identifier: Apache-2.0
"""The kernel's log, read in the agent's loop as it comes, each line once over restarts of the agent.

source     a line, and what a source of lines is
choice     which sources a setting names, and what can be said of them beforehand
batches    the lines of a descriptor, in batches
kmsg       /dev/kmsg
journald   journald's, by a journalctl that follows it
log_file   a file of a syslog daemon's, over its rotations; file_place: where it is left off; log_times: which lines are
           new; log_years: which are no older than a year; syslog: one line of it
kernel_log the one that is read, and the next where it cannot be
"""

from stepguard.agent.health.kernel_log.kernel_log import KernelLog
from stepguard.agent.health.kernel_log.source import Line

__all__ = ["KernelLog", "Line"]
