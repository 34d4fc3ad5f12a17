# SPDX-License-Identifier: Apache-2.0
"""Lines that stand around those of a log and say nothing of whose it is: what a shell, a tracker or a mail puts there,
and the rest of a line that was broken."""

from __future__ import annotations

import re

# Always: empty lines, journalctl's own, grep's, less's, tail's and sudo's, fences of markdown, Jira, BBCode and HTML,
# headings of Jira, a shell's prompt with or without a command, wall(1).
_MARK = re.compile(
    r"\s*$|-- |--\s*$|\.\.\.\s*$|Hint: |```|~~~|\{(?:noformat|code|quote|panel)(?::[^}]{0,128})?\}\s*$"
    r"|\[/?(?:code|quote|pre)(?:=[^\]]{0,64})?\]\s*$|</?(?:pre|code|blockquote)>\s*$|h[1-6]\. "
    r"|==> .{1,300} <==\s*$|lines \d{1,9}-\d{1,9}|\(END\)\s*$|\[sudo\] password for "
    r"|\[?[\w.@:~/ -]{0,64}\]?[$#](?: ?\S|\s*$)|(?:Message from syslogd@|Broadcast message from )"
)
# clush and dshbak name hosts between two of these.
_RULE = re.compile(r"-{5,80}\s*$")
_HOSTS = re.compile(r"[\w.,\[\]@-]{1,512}(?: \(\d{1,6}\))?\s*$")
# What a person's words begin with, a mail's answer, a chat's message, a sentence that leads on; then more that leads
# on, and what ends them.
_GREETING = re.compile(
    r"(?:Hi|Hello|Hey|Dear|Good (?:morning|afternoon|evening))\b"
    r"|On .{1,200} wrote:\s*$|[A-Za-z@][A-Za-z.@' -]{0,63} {1,4}\[?\d{1,2}:\d\d(?: ?[AP]M)?\]?\s*$"
    r"|(?:[A-Za-z',-]{1,32} ){2,32}[A-Za-z'-]{1,32}:\s*$"
)
_LEADS_ON = re.compile(r".{1,300}:\s*$")
_FAREWELL = re.compile(r"(?:Thanks|Thank you|Cheers|Best|(?:Kind |Best |Warm )?[Rr]egards|Sincerely|Yours|Greetings)\b")
_NAME = re.compile(r"[A-Z][\w.-]{1,31}(?: [A-Z][\w.-]{0,31}){0,2}\s*$")
# A line that ends so was not broken; the narrowest window that anything is pasted from.
_ENDS = (".", "!", "?")
_MIN_WIDTH = 50
_MAX_RESTS = 4


class Around:
    """Which of the lines of a text that are no log's count for nothing; they are to be given in order."""

    def __init__(self) -> None:
        self._is_letter = False
        self._before = ""
        self._rests = 0
        self._rules = 0

    def after_log(self, text: str) -> None:
        """A line of the log has passed by."""
        self._before, self._rests, self._rules = text.rstrip(), 0, 0

    def has(self, text: str) -> bool:
        """Whether the line is one of them."""
        is_rest = self._goes_on(text)
        self._before = text.rstrip() if is_rest else ""
        is_hosts = self._rules % 2 == 1 and _HOSTS.match(text) is not None
        if _RULE.match(text):
            self._rules += 1
            return True
        return is_rest or is_hosts or _MARK.match(text) is not None or self._is_of_letter(text)

    def _goes_on(self, text: str) -> bool:
        """Of a line that a window or a mailer broke, or of a message of several lines, which are indented."""
        if not self._before:
            return False
        if text[:1] in (" ", "\t"):
            return True
        self._rests += 1
        is_broken = len(self._before) >= _MIN_WIDTH and not self._before.endswith(_ENDS)
        return is_broken and self._rests <= _MAX_RESTS and bool(text.strip())

    def _is_of_letter(self, text: str) -> bool:
        if _GREETING.match(text):
            self._is_letter = True
            return True
        return self._is_letter and any(pattern.match(text) for pattern in (_LEADS_ON, _FAREWELL, _NAME))
