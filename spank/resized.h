/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's nodes after a change of the job, as a file says them: slurm_job_ID_resize.sh, which users are to source.
 * `scontrol update job`, run in a job, leaves it in its directory (_update_job_size in scontrol's update_job.c; the same
 * lines on 22.05, 24.11 and 26.05), and stepguard's supervisor beside its journal (resume/resized.py):
 *
 *     export SLURM_NODELIST="n[1-2,4]"
 *     export SLURM_JOB_NODELIST="n[1-2,4]"
 *     export SLURM_NNODES=3
 *     export SLURM_JOB_NUM_NODES=3
 *     export SLURM_JOB_CPUS_PER_NODE="1(x3)"
 *     unset SLURM_NPROCS
 *
 * It is data here, whatever it is: a file that holds anything but such lines, or contradicts itself, says nothing.
 */
#ifndef STEPGUARD_RESIZED_H
#define STEPGUARD_RESIZED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RESIZED_FILE_MAX (256 << 10) /* bytes */
#define RESIZED_LIST_MAX (64 << 10)  /* bytes of the list: it must fit into a variable of a task */

/* Of the tasks' environment, NULL where a variable is not there; and whose file it must be. */
struct resized_place {
	const char *home, *state_home, *cluster;
	const char *job_start;     /* SLURM_JOB_START_TIME, which 24.11 and 26.05 set, and 22.05 does not */
	const char *restart_count; /* "" for none */
	uint32_t job_id;
	uid_t uid;
};

struct resized {
	char *text; /* the allocation */
	const char *node_list;
	uint32_t count;
};

/* Reads the newer one of the two files, as the task: in its directory, and below its home. False where there is none
 * that says something of this run of the job. Allocates the file's size at most; resized_free afterwards either way. */
bool resized_read(struct resized *resized, const struct resized_place *place);
void resized_free(struct resized *resized);

#endif
