/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a list has nodes beyond the step's, the step's first task looks whether they are the job's: it can read the
 * user's files without a harm to anybody else. It tells slurmstepd through memory that they share, for the agent takes
 * findings from root alone.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture.h"
#include "places.h"
#include "resized.h"
#include "stale_list.h"
#include "stepd.h"

#define VARIABLE_MAX 32

/* The task's program does not get at it, but what it holds is the user's word all the same, and may change. */
struct told {
	char variable[VARIABLE_MAX], line[STALE_LINE_MAX];
	char value[CAPTURE_LIST_MAX], step_nodes[CAPTURE_LIST_MAX];
	atomic_bool whole;
};

static struct {
	const struct step *step;
	bool repairs;
	struct stale_list stale;
	struct told *told; /* NULL but on the node of the first task, where that decides */
} lists;

static struct node_variables read_variables(spank_t spank)
{
	return (struct node_variables){
		.step_node_list = stepd_variable(spank, "SLURM_STEP_NODELIST"),
		.step_num_nodes = stepd_variable(spank, "SLURM_STEP_NUM_NODES"),
		.job_node_list = stepd_variable(spank, "SLURM_JOB_NODELIST"),
		.node_list = stepd_variable(spank, "SLURM_NODELIST"),
		.job_num_nodes = stepd_variable(spank, "SLURM_JOB_NUM_NODES"),
		.nnodes = stepd_variable(spank, "SLURM_NNODES"),
	};
}

/* A guarded step's environment was rebuilt, and the lists of a part of a spliced one are those of the whole. */
void stepd_find_stale(spank_t spank, const struct step *step, bool repair_nodelist)
{
	struct node_variables variables = read_variables(spank);

	if (stepd_variable(spank, PLACES_NAME) || (step->attempt[0] && strcmp(step->attempt, "0") != 0) ||
	    (step->node_index != 0 && !repair_nodelist))
		return;
	lists.step = step;
	lists.repairs = repair_nodelist;
	stale_list_find(&lists.stale, &variables, step->job_id, step->step_id);
	if (step->node_index != 0)
		return;
	if (lists.stale.names_more) {
		void *memory = mmap(NULL, sizeof(struct told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		lists.told = memory == MAP_FAILED ? NULL : memory;
	} else if (lists.stale.variable) {
		capture_finding("stale-node-list", lists.stale.line, lists.stale.variable,
				stepd_variable(spank, lists.stale.variable), variables.step_node_list);
	}
}

/* In a task: the job's nodes, if a file says them and one of the variables contradicts. */
static bool find_left(spank_t spank, const struct node_variables *variables, struct resized *now)
{
	const struct step *step = lists.step;
	const struct resized_place place = {
		.home = stepd_variable(spank, "HOME"),
		.state_home = stepd_variable(spank, "XDG_STATE_HOME"),
		.cluster = stepd_variable(spank, "SLURM_CLUSTER_NAME"),
		.job_start = stepd_variable(spank, "SLURM_JOB_START_TIME"),
		.restart_count = step->restart_count,
		.job_id = step->job_id,
		.uid = step->uid,
	};

	return resized_read(now, &place) &&
	       stale_list_find_left(&lists.stale, variables, now->node_list, step->job_id);
}

static void repair(spank_t spank, const char *name, const char *value)
{
	char *copy = value && stepd_variable(spank, name) ? strdup(value) : NULL;

	if (copy)
		spank_setenv(spank, name, copy, 1);
	free(copy);
}

/* `now`: the job's nodes; NULL where they are not known, and the step's must do. */
static void repair_all(spank_t spank, const struct resized *now)
{
	char count[STEP_NUMBER_MAX];

	if (!now) {
		repair(spank, "SLURM_JOB_NODELIST", stepd_variable(spank, "SLURM_STEP_NODELIST"));
		repair(spank, "SLURM_NODELIST", stepd_variable(spank, "SLURM_STEP_NODELIST"));
		repair(spank, "SLURM_JOB_NUM_NODES", stepd_variable(spank, "SLURM_STEP_NUM_NODES"));
		repair(spank, "SLURM_NNODES", stepd_variable(spank, "SLURM_STEP_NUM_NODES"));
		return;
	}
	const char *step_count = stepd_variable(spank, "SLURM_STEP_NUM_NODES"), *nnodes = stepd_variable(spank, "SLURM_NNODES");

	snprintf(count, sizeof(count), "%u", (unsigned)now->count);
	/* srun makes this one the step's, unless it was told to leave it (--preserve-env). */
	if (nnodes && step_count && strcmp(nnodes, step_count) != 0)
		repair(spank, "SLURM_NNODES", count);
	repair(spank, "SLURM_JOB_NODELIST", now->node_list);
	repair(spank, "SLURM_NODELIST", now->node_list);
	repair(spank, "SLURM_JOB_NUM_NODES", count);
}

static void copy(char *to, size_t size, const char *from)
{
	if (from)
		memcpy(to, from, strnlen(from, size));
}

static void tell_slurmstepd(struct told *told, spank_t spank)
{
	copy(told->variable, sizeof(told->variable), lists.stale.variable);
	copy(told->line, sizeof(told->line), lists.stale.line);
	copy(told->value, sizeof(told->value), stepd_variable(spank, lists.stale.variable));
	copy(told->step_nodes, sizeof(told->step_nodes), stepd_variable(spank, "SLURM_STEP_NODELIST"));
	atomic_store(&told->whole, true);
}

void stepd_tell_stale(spank_t spank)
{
	struct resized now = { 0 };
	int local_id = -1;

	if (!lists.stale.variable && !lists.stale.names_more)
		return;
	bool is_first = lists.step->node_index == 0 && spank_get_item(spank, S_TASK_ID, &local_id) == ESPANK_SUCCESS &&
			local_id == 0;

	if (!is_first && !lists.repairs)
		return;
	struct node_variables variables = read_variables(spank);
	bool has_left = lists.stale.names_more && find_left(spank, &variables, &now);

	if (lists.stale.variable && is_first && lists.told)
		tell_slurmstepd(lists.told, spank);
	if (lists.stale.variable && lists.repairs)
		repair_all(spank, has_left ? &now : NULL);
	else if (lists.stale.variable)
		slurm_spank_log("%s", lists.stale.line);
	resized_free(&now);
}

/* Of a text that may change meanwhile: cut, and nothing in it that could be more than a character. */
static void take(char *to, size_t size, const char *from)
{
	size_t at = 0;

	for (char one; at < size - 1 && (one = from[at]); at++)
		to[at] = one >= ' ' && one <= '~' ? one : '?';
	to[at] = '\0';
}

void stepd_report_stale(void)
{
	struct told *told = lists.told;
	char variable[sizeof(told->variable)], line[sizeof(told->line)];

	if (!told || !atomic_load(&told->whole))
		return;
	take(variable, sizeof(variable), told->variable);
	take(line, sizeof(line), told->line);
	capture_finding("stale-node-list", line, variable, told->value, told->step_nodes);
}
