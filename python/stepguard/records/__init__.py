# SPDX-License-Identifier: Apache-2.0
"""What is kept of a job: where agent and archive, which do not know one another, meet.

wire      the one message format that slurmd's hooks, slurmstepd and the agent speak
spool     a node's spool: messages and raw output until they are in the archive
batch     what of a batch script's environment is kept where there is no room for all of it
manifest  the record of one attempt of a job, as it is read and written
job_ids   job ids as Slurm writes them: 12, 12_3, 12+1
journal_place  where the journal of a job's guarded steps lies
"""
