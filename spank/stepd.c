/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done in slurmstepd: before the tasks are forked and at the step's end as root, and between fork and exec of a
 * task as the user, in a child. There the environment is the one that exec gets: Slurm has set its own variables by now,
 * and runs only the TaskProlog after us (exec_task in slurmstepd's task.c, 22.05 and 24.11; by trial on 26.05). It
 * allocates and logs here itself, so that both are safe though slurmstepd has threads.
 */
#include <string.h>

#include "capture.h"
#include "shim.h"
#include "stepd.h"

#define ATTEMPT "STEPGUARD_ATTEMPT"

static struct {
	bool begun;
	bool ended;
	bool task_begun; /* in a task's process */
	struct step step;
	struct agent_settings settings;
} stepd;

const char *stepd_variable(spank_t spank, const char *name)
{
	size_t length = strlen(name);
	char **environment = NULL;

	if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS || !environment)
		return NULL;
	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

static bool get_number(spank_t spank, spank_item_t item, uint32_t *number)
{
	return spank_get_item(spank, item, number) == ESPANK_SUCCESS;
}

void stepd_copy_number(char to[STEP_NUMBER_MAX], const char *text)
{
	size_t digits = text ? strspn(text, "0123456789") : 0;

	if (digits > 0 && digits < 10 && text[digits] == '\0')
		memcpy(to, text, digits + 1);
}

/* False for the steps of Slurm's own (extern, interactive), and where it is not said what step it is. */
static bool read_step(spank_t spank, struct step *step)
{
	if (!get_number(spank, S_JOB_ID, &step->job_id) || !get_number(spank, S_JOB_STEPID, &step->step_id) ||
	    (step->step_id > SLURM_MAX_NORMAL_STEP_ID && step->step_id != SLURM_BATCH_SCRIPT) ||
	    spank_get_item(spank, S_JOB_UID, &step->uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &step->gid) != ESPANK_SUCCESS)
		return false;
	get_number(spank, S_JOB_NODEID, &step->node_index);
	get_number(spank, S_JOB_NNODES, &step->node_count);
	get_number(spank, S_JOB_LOCAL_TASK_COUNT, &step->local_tasks);
	get_number(spank, S_JOB_TOTAL_TASK_COUNT, &step->task_count);
	if (step->step_id != SLURM_BATCH_SCRIPT)
		stepd_copy_number(step->restart_count, stepd_variable(spank, "SLURM_RESTART_COUNT"));
	stepd_copy_number(step->attempt, stepd_variable(spank, ATTEMPT));
	return true;
}

int stepd_begin(spank_t spank, int count, char **arguments)
{
	if (stepd.begun)
		return 0;
	stepd.begun = true;
	if (!read_step(spank, &stepd.step)) {
		stepd.ended = true;
		return 0;
	}
	agent_settings_read(&stepd.settings, settings_config(count, arguments));
	capture_begin(spank, &stepd.step, &stepd.settings);
	if (stepd.step.step_id != SLURM_BATCH_SCRIPT)
		stepd_find_stale(spank, &stepd.step, stepd.settings.repair_nodelist);
	return 0;
}

int stepd_task_init(spank_t spank)
{
	stepd_take_place(spank);
	if (stepd.task_begun)
		return 0;
	stepd.task_begun = true;
	stepd_tell_stale(spank);
	capture_task(spank);
	return 0;
}

int stepd_task_exit(spank_t spank)
{
	if (stepd.begun && !stepd.ended)
		capture_task_exit(spank);
	return 0;
}

/* Also called in srun, where nothing was begun. */
int stepd_end(void)
{
	if (stepd.begun && !stepd.ended) {
		stepd.ended = true;
		stepd_report_stale();
		capture_end();
	}
	return 0;
}
