/* SPDX-License-Identifier: Apache-2.0
 *
 * What slurmstepd offers to a plugin in task_init, as env.c and spank.c of 24.11 do it: entries are allocated one by one
 * and freed when they are changed, and the array moves when it grows, so that AddressSanitizer sees who holds on to them.
 */
#include "host_task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_MAX (32 * 4096)

static struct {
	char **environment;
	int count;
	int local_id;
} task = { .local_id = -1 };

const struct host_step *host_step;

static void append(const char *name, const char *value)
{
	char **grown = malloc(((size_t)task.count + 2) * sizeof(*grown));
	char *entry = malloc(strlen(name) + strlen(value) + 2);

	if (!grown || !entry)
		abort();
	sprintf(entry, "%s=%s", name, value);
	for (int i = 0; i < task.count; i++)
		grown[i] = task.environment[i];
	free(task.environment);
	task.environment = grown;
	grown[task.count++] = entry;
	grown[task.count] = NULL;
}

static int find(const char *name, int from)
{
	size_t length = strlen(name);

	for (; from < task.count; from++)
		if (strncmp(task.environment[from], name, length) == 0 && task.environment[from][length] == '=')
			break;
	return from;
}

static spank_err_t get_of_step(spank_item_t item, va_list arguments)
{
	switch (item) {
	case S_JOB_UID:
		*va_arg(arguments, uid_t *) = host_step->uid;
		return ESPANK_SUCCESS;
	case S_JOB_GID:
		*va_arg(arguments, gid_t *) = host_step->gid;
		return ESPANK_SUCCESS;
	case S_JOB_ARGV:
		*va_arg(arguments, int *) = host_step->argc;
		*va_arg(arguments, char ***) = host_step->argv;
		return ESPANK_SUCCESS;
	case S_TASK_EXIT_STATUS:
		*va_arg(arguments, int *) = host_step->status;
		return ESPANK_SUCCESS;
	default:
		break;
	}
	const struct {
		spank_item_t item;
		uint32_t value;
	} numbers[] = {
		{ S_JOB_ID, host_step->job_id },         { S_JOB_STEPID, host_step->step_id },
		{ S_JOB_NODEID, host_step->node_index }, { S_JOB_NNODES, host_step->node_count },
		{ S_TASK_GLOBAL_ID, host_step->rank },   { S_JOB_LOCAL_TASK_COUNT, host_step->local_tasks },
		{ S_JOB_TOTAL_TASK_COUNT, host_step->task_count },
		{ S_JOB_ARRAY_ID, host_step->array_job_id },
		{ S_JOB_ARRAY_TASK_ID, host_step->array_task_id },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i].item == item) {
			*va_arg(arguments, uint32_t *) = numbers[i].value;
			return ESPANK_SUCCESS;
		}
	}
	return ESPANK_BAD_ARG;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	spank_err_t rc = ESPANK_SUCCESS;
	va_list arguments;

	(void)spank;
	va_start(arguments, item);
	switch (item) {
	case S_JOB_ENV:
		*va_arg(arguments, char ***) = task.environment;
		break;
	case S_TASK_ID:
		*va_arg(arguments, int *) = task.local_id;
		rc = task.local_id < 0 ? ESPANK_NOT_TASK : ESPANK_SUCCESS;
		break;
	default:
		rc = host_step ? get_of_step(item, arguments) : ESPANK_BAD_ARG;
	}
	va_end(arguments);
	return rc;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	(void)spank;
	/* After one was taken out, the next one is not looked at: so does Slurm. */
	for (int at = find(name, 0); at < task.count; at = find(name, at + 1)) {
		free(task.environment[at]);
		for (int i = at; i < task.count; i++)
			task.environment[i] = task.environment[i + 1];
		task.count--;
	}
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	char *copy = strdup(value);
	int at = find(name, 0);

	(void)spank;
	if (!copy || strlen(name) + strlen(value) + 2 >= ENTRY_MAX)
		abort();
	if (at < task.count && !overwrite) {
		free(copy);
		return ESPANK_ENV_EXISTS;
	}
	if (at < task.count)
		spank_unsetenv(NULL, name);
	append(name, copy);
	free(copy);
	return ESPANK_SUCCESS;
}

void task_make(int local_id, int twice)
{
	task.local_id = local_id;
	for (char **entry = environ; *entry; entry++) {
		const char *equals = strchr(*entry, '=');
		char *name = equals ? strndup(*entry, (size_t)(equals - *entry)) : NULL;

		if (name && strncmp(name, "HOST_", 5) != 0)
			for (int i = 0; i <= twice; i++)
				append(name, equals + 1);
		free(name);
	}
}

void task_begin(int local_id)
{
	task.local_id = local_id;
}

void task_report(void)
{
	for (int i = 0; i < task.count; i++) {
		fputs("task=", stdout);
		for (const char *at = task.environment[i]; *at; at++)
			printf("%02x", (unsigned char)*at);
		putchar('\n');
	}
}
