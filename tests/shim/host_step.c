/* SPDX-License-Identifier: Apache-2.0
 *
 * One step as slurmstepd runs it (mgr.c and task.c, 22.05 and 24.11): init and init_post_opt as root, task_init in a child
 * for each task, as the user, task_exit as each ends, in the order of local ids, and exit. Its own environment is that
 * of the tasks, less HOST_*. The first task's environment, as exec gets it, is
 * printed on standard output (task=HEX lines); slurmd's log is standard error, the task's own lines begin with "task: ".
 *
 *   HOST_PLUGSTACK  the plugstack.conf
 *   HOST_STEP       JOB_ID STEP_ID NODE_INDEX NODE_COUNT TASKS UID (numbers; TASKS on each node)
 *   HOST_ARRAY      set: ARRAY_JOB_ID TASK_ID, which slurmstepd says it to be a task of
 *   HOST_STATUSES   the status of each task, as wait(2) gives it; the last one is for all further ones
 *   HOST_RESTARTS   set: slurmstepd sets SLURM_RESTART_COUNT so for its tasks
 *   HOST_UNFORKED   set: no task is forked
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "host_task.h"

#define PLUGINS_MAX 4

static struct {
	void *handle;
	int argc;
	char *argv[16];
} plugins[PLUGINS_MAX];
static int plugin_count;
static struct host_step step;
static const char *speaker = "";

#define LOGGER(name, level)                                      \
	void name(const char *format, ...)                       \
	{                                                        \
		va_list arguments;                               \
		va_start(arguments, format);                     \
		fprintf(stderr, "%s%s", speaker, level);         \
		vfprintf(stderr, format, arguments);             \
		fputc('\n', stderr);                             \
		va_end(arguments);                               \
	}
LOGGER(slurm_spank_log, "")
LOGGER(slurm_error, "error: ")
LOGGER(slurm_info, "info: ")
LOGGER(slurm_verbose, "verbose: ")

spank_context_t spank_context(void)
{
	return S_CTX_REMOTE;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	(void)option;
	return ESPANK_SUCCESS;
}

static void load(char *line)
{
	char *save = NULL;
	char *word = strtok_r(line, " \t\n", &save); /* optional */

	if (!word || !(word = strtok_r(NULL, " \t\n", &save)))
		return;
	plugins[plugin_count].handle = dlopen(word, RTLD_LAZY);
	if (!plugins[plugin_count].handle) {
		fprintf(stderr, "host: %s\n", dlerror());
		exit(100);
	}
	while ((word = strtok_r(NULL, " \t\n", &save)))
		plugins[plugin_count].argv[plugins[plugin_count].argc++] = strdup(word);
	plugin_count++;
}

static void call(const char *name)
{
	for (int i = 0; i < plugin_count; i++) {
		spank_f *callback = (spank_f *)dlsym(plugins[i].handle, name);

		if (!callback || callback(NULL, plugins[i].argc, plugins[i].argv) != 0)
			fprintf(stderr, "error: %s failed\n", name);
	}
}

static void run_task(int local_id)
{
	if (setgroups(0, NULL) != 0 || setgid(step.gid) != 0 || setuid(step.uid) != 0)
		_exit(101);
	task_begin(local_id);
	if (getenv("HOST_RESTARTS"))
		spank_setenv(NULL, "SLURM_RESTART_COUNT", getenv("HOST_RESTARTS"), 1);
	speaker = "task: ";
	call("slurm_spank_task_init");
	if (local_id == 0)
		task_report();
	fflush(stdout);
	_exit(0);
}

static void run_tasks(void)
{
	const char *statuses = getenv("HOST_STATUSES");
	char *next = NULL;

	for (uint32_t i = 0; i < step.local_tasks; i++) {
		pid_t child = getenv("HOST_UNFORKED") ? 0 : fork();

		if (child == 0 && !getenv("HOST_UNFORKED"))
			run_task((int)i);
		if (child > 0 && (waitpid(child, &step.status, 0) != child || step.status != 0))
			fprintf(stderr, "error: task %u: status %d\n", i, step.status);
		if (statuses && *statuses) {
			step.status = (int)strtol(statuses, &next, 10);
			statuses = *next ? next + 1 : statuses;
		}
		step.rank = step.node_index * step.local_tasks + i;
		call("slurm_spank_task_exit");
	}
}

int main(int argc, char **argv)
{
	char line[4096];
	unsigned numbers[6] = { 0 };
	FILE *file = fopen(getenv("HOST_PLUGSTACK"), "r");
	sigset_t blocked;

	if (!file || sscanf(getenv("HOST_STEP"), "%u %u %u %u %u %u", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
			    &numbers[4], &numbers[5]) != 6)
		return 100;
	step = (struct host_step){ .job_id = numbers[0], .step_id = numbers[1], .node_index = numbers[2],
				   .node_count = numbers[3], .local_tasks = numbers[4], .task_count = numbers[3] * numbers[4],
				   .uid = numbers[5], .gid = numbers[5], .argc = argc - 1, .argv = argv + 1,
				   .array_task_id = NO_VAL };
	if (getenv("HOST_ARRAY") &&
	    sscanf(getenv("HOST_ARRAY"), "%u %u", &step.array_job_id, &step.array_task_id) != 2)
		return 100;
	host_step = &step;
	sigfillset(&blocked);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	while (plugin_count < PLUGINS_MAX && fgets(line, sizeof(line), file))
		load(line);
	fclose(file);
	task_make(-1, 0);
	call("slurm_spank_init");
	call("slurm_spank_init_post_opt");
	fflush(NULL);
	run_tasks();
	call("slurm_spank_exit");
	return 0;
}
