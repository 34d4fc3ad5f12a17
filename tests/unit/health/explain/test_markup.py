# SPDX-License-Identifier: Apache-2.0
"""What was copied out of a web page's source says the same without the page's markup."""

from __future__ import annotations

import html

import pytest

from stepguard.health.explain import explain
from stepguard.health.explain.markup import without_markup
from stepguard.health.model import Status

LOG = (
    "[   11.345678] NVRM: loading NVIDIA UNIX Open Kernel Module\n"
    "[   12.345678] NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"<pre>{html.escape(LOG)}</pre>\n",
        f'<pre class="x">\n{html.escape(LOG)}</pre></blockquote>\n',
        f"<pre><code>{html.escape(LOG)}</code></pre>",
        html.escape(LOG),
        LOG.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#039;"),
    ],
)
def test_a_log(text: str) -> None:
    assert without_markup(text.encode()).strip().decode() == LOG.strip()
    judgement = explain(text.encode()).judgement
    assert (judgement.status, [(event.code, event.trusted) for event in judgement.events]) == (
        Status.FAIL,
        [(79, True)],
    )


@pytest.mark.parametrize(
    "text",
    [
        LOG,
        "[   12.345678] a&b; <br> &#10; x\n",
        "<3>Jun  1 12:00:00 n1 kernel: a\n",
        '<?xml version="1.0" ?>\n<nvidia_smi_log><a>&lt;b&gt;</a></nvidia_smi_log>\n',
    ],
)
def test_what_is_left_as_it_is(text: str) -> None:
    assert without_markup(text.encode()) == text.encode()


def test_no_line_becomes_two() -> None:
    text = "[   12.345678] INFO: task &lt;&#10;&#x0a;<br>NVRM: Xid (PCI:0000:0f:00): 79:1 blocked\n"
    assert without_markup(text.encode()).count(b"\n") == 1
    assert explain(text.encode()).judgement.status is Status.OK


def test_a_page_makes_a_programs_line_no_kernels() -> None:
    text = f"<pre>epoch 1\n{html.escape(LOG)}</pre>"
    assert explain(text.encode()).judgement.status is Status.UNKNOWN
