# SPDX-License-Identifier: Apache-2.0
"""Auto-resume: one guarded step, started again on healthy nodes when its hardware fails.

supervisor   the loop over attempts
recovery     what follows when one does not end well; the only module that knows the order of things
attempt      one run of the step, and its end; parts: its sruns, one in each job that gives it nodes
stdio        what a killed srun leaves changed
signals      what reaches us goes on to srun, or ends a pause
lookout      all that is known of the nodes meanwhile: watch_step (an `srun --overlap` a job, made by watching), pulse
watch        the same on each node; orders: what it was told, orphaned: what it does when nobody asks any more
agent_verdict  asks the node's agent, for the watch; told: what a node tells of itself, hearsay: what of it is told on
reach        does a host still answer at all?
evidence     what is known about an end, as findings → verdict: what it means (pure)
limits       may there be one more?
replacement  finds the nodes of the next attempt: strategies, each looking at the situation
helper_job   nodes from outside the job; proof: are they fit?
ranks        who has which ranks (layout), told to the tasks by an entry (places)
relaunch     the sruns of the next attempt
claims       guarded steps of one job do not take each other's spare
journal      every decision, kept with its evidence and its seconds
resized      the job's new nodes, for the user's script and the plugin
messages     what the user reads
"""
