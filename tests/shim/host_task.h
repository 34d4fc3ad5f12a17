/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_TASK_H
#define HOST_TASK_H

#include <stdint.h>
#include <sys/types.h>

#include <slurm/spank.h>

/* What slurmstepd answers of its step; without one, it knows of none. */
struct host_step {
	uint32_t job_id, step_id, node_index, node_count, local_tasks, task_count;
	uint32_t array_job_id, array_task_id; /* 0 and NO_VAL outside an array */
	uid_t uid;
	gid_t gid;
	int argc;
	char **argv;
	/* of the task that is asked about */
	uint32_t rank;
	int status;
};
extern const struct host_step *host_step;

/* Makes the task `local_id`: its environment is this process's own, without HOST_*, and with `twice` each entry of it
 * stands there twice. */
void task_make(int local_id, int twice);

/* In its process, that very task. */
void task_begin(int local_id);

/* Prints the task's environment, as exec would get it: task=HEX lines. */
void task_report(void);

#endif
