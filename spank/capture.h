/* SPDX-License-Identifier: Apache-2.0
 *
 * What slurmstepd tells the agent of a step, see wire.h. Where no agent was ever installed, it costs two lstat.
 */
#ifndef STEPGUARD_CAPTURE_H
#define STEPGUARD_CAPTURE_H

#include "stepd.h"
#include "wire.h"

#define CAPTURE_SCRIPT_MAX (4 << 20)      /* bytes; Slurm's own bound (max_script_size in slurm.conf(5)) */
#define CAPTURE_ENVIRONMENT_MAX (1 << 20) /* bytes */
#define CAPTURE_ARGV_MAX (64 << 10)       /* bytes */
#define CAPTURE_LIST_MAX (64 << 10)       /* bytes of a node list */
#define CAPTURE_TASKS_MAX 4096            /* whose exits are kept */

/* capture.c: before the tasks are forked, as root. Both stay as they are from here on. */
void capture_begin(spank_t spank, const struct step *step, const struct agent_settings *settings);

/* In the child that becomes the task, as the user. */
void capture_task(spank_t spank);

/* As a task has ended, as root, possibly in the job's mount namespace: only remembers it. */
void capture_task_exit(spank_t spank);

/* At the end of the step, as root. */
void capture_end(void);

/* Says that the environment contradicts Slurm, as root. `value` is that of the variable; of it and of `step_nodes`
 * CAPTURE_LIST_MAX bytes are read. */
void capture_finding(const char *code, const char *text, const char *variable, const char *value, const char *step_nodes);

/* capture_start.c: adds what is told of a step when it begins. */
void capture_add_batch(struct wire *wire, spank_t spank);
void capture_add_step(struct wire *wire, spank_t spank, const struct step *step);

/* capture_output.c: what the descriptors of the batch task really are; in memory that its process shares with
 * slurmstepd. The task's program does not get at it, but what it holds is the user's word all the same. */
struct output;

/* `restart_count`: SLURM_RESTART_COUNT as it was submitted, or NULL. Returns NULL without memory. */
struct output *output_share(const char *restart_count);

/* In the task, with SLURM_RESTART_COUNT as it is there. */
void output_look(struct output *output, const char *restart_count);

/* Adds it to a message; false while nobody has looked. */
bool output_add(const struct output *output, struct wire *wire);

/* Digits, or "": Slurm sets the variable for the task, and only from the first restart on (env.c, 22.05 and 24.11); what
 * was submitted with the job is that of another one, from which it was submitted. */
const char *output_restart_count(const struct output *output);

/* The agent has it from the task itself. */
void output_mark_sent(struct output *output);
bool output_is_sent(const struct output *output);

#endif
