# SPDX-License-Identifier: Apache-2.0
"""What a pasted text is, and what it says: `stepguard health explain`.

quotation  the marks that a mail puts before what it quotes
explained  picks among the tools whose output is known, else reads the text as a log
document   the result as JSON
page       the result for people
"""

from stepguard.health.explain.explained import Explained, explain

__all__ = ["Explained", "explain"]
