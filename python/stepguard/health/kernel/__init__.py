# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log → events.

line       one line, whatever format it stood in
formats    the formats of one line: dmesg, /dev/kmsg, syslog, journalctl
pasted     what a text loses and gains on its way into a ticket
dmesg_json dmesg --json
journal    the formats of several lines or of JSON: journalctl -o json, json-pretty, verbose, export
message    messages of several lines, put together
around     lines that stand around a log's and say nothing of whose it is
shape      whether a text is a log at all, or the output of a program that quotes one
lines      a whole text → lines
recognize  a line → events; a cheap look for words comes before any pattern
users_words lines that begin with what a user chose
in_context what needs a line before it
held_gpus  GPUs that another driver has
link_starts links that have not been up yet
firmware   what firmware reports (APEI), a record of several lines
drivers    a device that its driver could not take, whichever driver
nvidia amd pcie memory oom storage network lockup amazon: what each driver says
fold       events of a log: counted, by the rules of repetition and of XID 154

Only what the kernel itself wrote is trusted: a line that somebody gave to `logger`, wrote to /dev/kmsg from user space
or printed is an event too, and decides nothing.
"""

from stepguard.health.kernel.fold import events
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.recognize import recognize

__all__ = ["LogLine", "events", "recognize"]
