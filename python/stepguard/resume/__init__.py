# SPDX-License-Identifier: Apache-2.0
"""Auto-resume: one guarded step, started again on healthy nodes when its hardware fails.

supervisor   the loop over attempts; the only module that knows the order of things
attempt      one run of the real srun, and its end
signals      what reaches us goes on to srun
watch_step   the `srun --overlap` beside it, as the supervisor sees it; watch: the same on each node
reach        does a host still answer at all?
evidence     what is known about an end → verdict: what it means (pure)
limits       may there be one more?
strategies   where the next attempt runs
claims       guarded steps of one job do not take each other's spare
journal      every decision, kept with its evidence and its seconds
messages     what the user reads
"""
