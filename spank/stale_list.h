/* SPDX-License-Identifier: Apache-2.0
 *
 * Does the tasks' environment say of the job's nodes what Slurm says of the step's? The step's nodes are srun's own word
 * at this start, while SLURM_JOB_NODELIST and its like are handed down from wherever srun was called, and may be older
 * than the last change of the job.
 *
 * A list is stale when a node of the step is not in it; a number, when it is that of no list. A step on fewer nodes than
 * the job has is as it should be, and nothing in a slurmstepd says what the job's nodes are now: srun takes SLURM_NODELIST
 * from SLURM_JOB_NODELIST (srun_job.c, 22.05 and 24.11), SPANK has no item for it, and the credential, which knows, is in a
 * structure of Slurm's own. Whether a listed node has left the job is told by a file, where there is one (resized.h).
 */
#ifndef STEPGUARD_STALE_LIST_H
#define STEPGUARD_STALE_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* Of the tasks' environment; NULL where a variable is not there. */
struct node_variables {
	const char *step_node_list, *step_num_nodes;
	const char *job_node_list, *node_list;
	const char *job_num_nodes, *nnodes;
};

#define STALE_LINE_MAX 1024

struct stale_list {
	const char *variable; /* the name of the one that contradicts, NULL where none does */
	bool names_more;      /* a list has nodes beyond the step's: true, unless some of them have left the job */
	char line[STALE_LINE_MAX]; /* for the user, of `variable` */
};

/* Compares with the step's nodes. Finds nothing where no judgement is possible (a list that is none, more than 65536
 * names, no memory). Allocates 1 MiB at most, for a while. */
void stale_list_find(struct stale_list *found, const struct node_variables *variables, uint32_t job_id, uint32_t step_id);

/* Compares with the job's nodes, which hold the step's (else they are old themselves): a list is stale when a node of it is
 * none of theirs, and a number when it is greater than theirs. Returns false and leaves all as it was where nothing is
 * found. Allocates as much. */
bool stale_list_find_left(struct stale_list *found, const struct node_variables *variables, const char *job_nodes,
			  uint32_t job_id);

#endif
