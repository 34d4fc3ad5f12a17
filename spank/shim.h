/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the plugin that Slurm loads. They run as the user in srun, sbatch and salloc; stepd.c and what it calls,
 * in slurmstepd, as root and as the user. Nothing runs in slurmd.
 */
#ifndef STEPGUARD_SHIM_H
#define STEPGUARD_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#include <slurm/spank.h>

#include "bridge.h"

#define STEPGUARD_OPTION "--auto-resume"

/* Exit statuses, as in stepguard/errors.py. */
#define EXIT_PLACEMENT 2
#define EXIT_BROKEN 71

/* settings.c: the arguments of the plugin's line in plugstack.conf. */
enum lint { LINT_WARN, LINT_REJECT, LINT_OFF }; /* in the order of settings.c */

struct settings {
	bool misplaced_warns;   /* misplaced=warn: sbatch and salloc go on without the option */
	bool broken_refuses;    /* on_broken=refuse: no step where a guarded one was asked for and cannot be had */
	enum lint lint;         /* lint=warn|reject|off: what sbatch does with findings in a job script */
	const char *config;     /* config=PATH: the configuration file, NULL for the default place */
};

/* Reads the arguments; a wrong one is named in one line and its default is used. Never fails. */
void settings_read(struct settings *settings, int count, char **arguments);

/* The value of config= alone, NULL for the default place. Says nothing: where slurmstepd would, only its log hears it. */
const char *settings_config(int count, char **arguments);

/* client.c: the option, and what becomes of the program that was given it. */
int client_init(spank_t spank, int count, char **arguments);
int client_post_opt(spank_t spank);
int client_register_remote(spank_t spank);

/* words.c: the command line of this process. */
struct words {
	char *bytes; /* each word ended by a NUL */
	size_t size;
	char **word; /* count pointers into bytes */
	int count;
};

/* Reads the command line from the kernel. Returns 0, or -1 with errno set; words_free afterwards either way. */
int words_read(struct words *words);
void words_free(struct words *words);

/* submission.c: opens the job script as sbatch has found it; `path` gets where. Returns -1, and no path, when there is
 * nothing to read. */
int submission_open(const struct words *words, int script_at, char *path, size_t size);

/* Has the job script of this sbatch checked, if it mentions what can be wrong with it. To be called once for
 * each component of a heterogeneous command line. Does not return when there are findings and `rejects`. */
void submission_check(bool rejects);

/* supervise.c: becomes the supervisor of the step. */

/* Replaces this process by the supervisor of `words`, which no longer hold our own option; words[command_at] is the
 * program. Returns only when that failed; `why` says why then. */
void supervise(char **words, int count, int command_at, char *why, size_t why_size);

/* ask.c: loads the bridge, on the first question only, and asks it. For STEPGUARD_BROKEN, answer->text says why. */
int ask(const struct stepguard_question *question, struct stepguard_answer *answer);

/* The same in a child: whatever happens there, this process goes on, after deadline_ms at the latest. */
int ask_apart(const struct stepguard_question *question, struct stepguard_answer *answer, int deadline_ms);

/* stepd.c: before the tasks are forked, in the task before its exec, after a task's end, at the end of the step. All
 * return 0: no step fails for us. */
int stepd_begin(spank_t spank, int count, char **arguments);
int stepd_task_init(spank_t spank);
int stepd_task_exit(spank_t spank);
int stepd_end(void);

#endif
