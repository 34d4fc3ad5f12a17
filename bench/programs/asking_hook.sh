#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prolog and epilog as sites write them: they ask slurmctld about the job, and keep what it says.
set -u
directory=/run/asking_hook
mkdir -p "$directory"
scontrol show job "$SLURM_JOB_ID" >"$directory/$SLURM_JOB_ID.job"
if [ "$SLURM_SCRIPT_CONTEXT" = prolog_slurmd ]; then
	scontrol write batch_script "$SLURM_JOB_ID" "$directory/$SLURM_JOB_ID.sh" >/dev/null
fi
exit 0
