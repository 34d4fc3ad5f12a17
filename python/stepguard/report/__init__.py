# SPDX-License-Identifier: Apache-2.0
"""Records as pages of plain text, in reading order:

times      times, durations and sizes for people, and the times that people type
screen     where a page goes: its width, its encoding, and what happens when nobody reads on
layout     headings, labelled values and tables
steps      the steps of a record, put together from what each node saw
lacks      what a record lacks
ended      how a job ended
resumes    the journal of auto-resume in sentences
script_findings  what check-script says about the script, and what came true
timeline   all that has a time, in order
job_page   a job's record
lists      many jobs, and the nodes of one
"""
