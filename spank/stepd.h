/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts that run in slurmstepd share. All callbacks but task_init run in its main thread, one after another
 * (mgr.c of 22.05 and 24.11; where ContainSpank has them cloned, it waits for the clone, which shares its memory), and
 * task_init in a process of its own that was forked from it: so what they keep between them needs no lock.
 */
#ifndef STEPGUARD_STEPD_H
#define STEPGUARD_STEPD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#define STEP_NUMBER_MAX 12 /* characters, and a NUL */

/* The part of a step that this slurmstepd runs. */
struct step {
	uint32_t job_id;
	uint32_t step_id; /* SLURM_BATCH_SCRIPT, or a number: of other steps nothing is told */
	uint32_t node_index, node_count;
	uint32_t local_tasks, task_count;
	uid_t uid;
	gid_t gid;
	char restart_count[STEP_NUMBER_MAX]; /* digits, or "": nobody says; of a batch step, its task does */
	char attempt[STEP_NUMBER_MAX];       /* STEPGUARD_ATTEMPT, the same */
};

/* stepd.c: the value of a variable in the tasks' environment, or NULL; good until the next change. */
const char *stepd_variable(spank_t spank, const char *name);

/* Copies a text of up to 9 digits, and nothing of any other. */
void stepd_copy_number(char to[STEP_NUMBER_MAX], const char *text);

/* stepd_places.c: puts a task of a part of a step in its place in the whole, see places.h. */
void stepd_take_place(spank_t spank);

/* stepd_lists.c, see stale_list.h: looks whether the node lists of the tasks' environment are stale, before they are
 * forked; says so in the step's first task, or, if `repair_nodelist`, has each task get the right ones; and tells the agent
 * at the step's end what only a task could find. `step` stays as it is from here on. */
void stepd_find_stale(spank_t spank, const struct step *step, bool repair_nodelist);
void stepd_tell_stale(spank_t spank);
void stepd_report_stale(void);

#endif
