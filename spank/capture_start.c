/* SPDX-License-Identifier: Apache-2.0
 *
 * When init_post_opt is called, slurmstepd has the job's own environment, and of a batch step the script is in its spool
 * directory already, where argv[0] points to (mgr_launch_batch_job_setup in mgr.c, 22.05 and 24.11; by trial on 26.05).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture.h"

static char **arguments_of(spank_t spank)
{
	char **argv = NULL;
	int count = 0;

	return spank_get_item(spank, S_JOB_ARGV, &count, &argv) == ESPANK_SUCCESS && count > 0 ? argv : NULL;
}

/* The file is the user's own by now, in a directory that is not: whatever they make of it, it is read as data. */
static void add_script(struct wire *wire, const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
		size_t room = status.st_size < CAPTURE_SCRIPT_MAX ? (size_t)status.st_size : CAPTURE_SCRIPT_MAX, size = 0;
		char *script = malloc(room + 1);
		ssize_t got = 0;

		while (script && size < room && (got = read(fd, script + size, room - size)) > 0)
			size += (size_t)got;
		wire_add_number(wire, "script_size", (uint64_t)status.st_size);
		if (script && got >= 0)
			wire_add(wire, "script", script, size);
		free(script);
	}
	close(fd);
}

/* Of a batch step slurmctld says it; of what is no array's, 0 and NO_VAL. Of any other step srun says it, and has it from
 * its environment, so there it counts for nothing (22.05, 24.11 and 26.05, by trial). */
static void add_array_task(struct wire *wire, spank_t spank)
{
	uint32_t array_job_id = 0, task_id = NO_VAL;

	if (spank_get_item(spank, S_JOB_ARRAY_ID, &array_job_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_ARRAY_TASK_ID, &task_id) != ESPANK_SUCCESS)
		return;
	if (array_job_id == 0 || array_job_id == NO_VAL || task_id == NO_VAL)
		return;
	wire_add_number(wire, "array_job_id", array_job_id);
	wire_add_number(wire, "array_task_id", task_id);
}

void capture_add_batch(struct wire *wire, spank_t spank)
{
	char **argv = arguments_of(spank), **environment = NULL;

	add_array_task(wire, spank);
	wire_add_list(wire, "argv", argv, NULL, CAPTURE_ARGV_MAX, WIRE_LONG_ENDS);
	if (spank_get_item(spank, S_JOB_ENV, &environment) == ESPANK_SUCCESS)
		wire_add_list(wire, "environment", environment, NULL, CAPTURE_ENVIRONMENT_MAX, WIRE_LONG_LEFT_OUT);
	if (argv && argv[0])
		add_script(wire, argv[0]);
}

static void add_list(struct wire *wire, spank_t spank, const char *field, const char *variable)
{
	const char *value = stepd_variable(spank, variable);

	if (value)
		wire_add(wire, field, value, strnlen(value, CAPTURE_LIST_MAX));
}

void capture_add_step(struct wire *wire, spank_t spank, const struct step *step)
{
	wire_add_number(wire, "node_index", step->node_index);
	wire_add_number(wire, "node_count", step->node_count);
	wire_add_number(wire, "local_tasks", step->local_tasks);
	wire_add_number(wire, "task_count", step->task_count);
	add_list(wire, spank, "step_node_list", "SLURM_STEP_NODELIST");
	add_list(wire, spank, "job_node_list", "SLURM_JOB_NODELIST");
	if (step->attempt[0]) { /* a guarded step, whose journal lies there: a job of salloc has no other message to say so */
		add_list(wire, spank, "home", "HOME");
		add_list(wire, spank, "xdg_state_home", "XDG_STATE_HOME");
	}
	wire_add_list(wire, "argv", arguments_of(spank), NULL, CAPTURE_ARGV_MAX, WIRE_LONG_ENDS);
}
