/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "places.h"
#include "stale_list.h"
#include "stepd.h"

static struct {
	const char *stale; /* the variable that contradicts the step's nodes */
	bool repairs;
	char line[STALE_LINE_MAX];
} lists;

/* A guarded step's environment was rebuilt, and the lists of a part of a spliced one are those of the whole. */
void stepd_find_stale(spank_t spank, const struct step *step, bool repair_nodelist)
{
	struct node_variables variables = {
		.step_node_list = stepd_variable(spank, "SLURM_STEP_NODELIST"),
		.step_num_nodes = stepd_variable(spank, "SLURM_STEP_NUM_NODES"),
		.job_node_list = stepd_variable(spank, "SLURM_JOB_NODELIST"),
		.node_list = stepd_variable(spank, "SLURM_NODELIST"),
		.job_num_nodes = stepd_variable(spank, "SLURM_JOB_NUM_NODES"),
		.nnodes = stepd_variable(spank, "SLURM_NNODES"),
	};

	if (stepd_variable(spank, PLACES_NAME) || (step->attempt[0] && strcmp(step->attempt, "0") != 0) ||
	    (step->node_index != 0 && !repair_nodelist))
		return;
	lists.repairs = repair_nodelist;
	lists.stale = stale_list_find(&variables, step->job_id, step->step_id, lists.line);
	if (lists.stale && step->node_index == 0)
		capture_finding("stale-node-list", lists.line, lists.stale, stepd_variable(spank, lists.stale),
				variables.step_node_list);
}

static void repair(spank_t spank, const char *name, const char *step_name)
{
	const char *value = stepd_variable(spank, step_name);
	char *copy = value && stepd_variable(spank, name) ? strdup(value) : NULL;

	if (copy)
		spank_setenv(spank, name, copy, 1);
	free(copy);
}

void stepd_tell_stale(spank_t spank)
{
	int local_id = -1;

	if (!lists.stale)
		return;
	if (lists.repairs) {
		repair(spank, "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST");
		repair(spank, "SLURM_NODELIST", "SLURM_STEP_NODELIST");
		repair(spank, "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES");
		repair(spank, "SLURM_NNODES", "SLURM_STEP_NUM_NODES");
	} else if (spank_get_item(spank, S_TASK_ID, &local_id) == ESPANK_SUCCESS && local_id == 0) {
		slurm_spank_log("%s", lists.line);
	}
}
