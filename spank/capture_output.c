/* SPDX-License-Identifier: Apache-2.0
 *
 * When task_init is called, the descriptors are those of the task already (prepare_stdio in mgr.c comes before exec_task,
 * 22.05 and 24.11; by trial on 26.05): names and patterns are behind us, this is what the job writes to.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "capture.h"

#define DESCRIPTORS 3

static const char *const names[DESCRIPTORS] = { "stdin", "stdout", "stderr" };
static const char *const id_names[DESCRIPTORS] = { "stdin_id", "stdout_id", "stderr_id" };

struct output {
	struct {
		char target[PATH_MAX];
		size_t target_size;
		char id[64]; /* DEV:INO:TYPE */
	} descriptor[DESCRIPTORS];
	char work_dir[PATH_MAX];
	char submitted_count[STEP_NUMBER_MAX], restart_count[STEP_NUMBER_MAX];
	atomic_bool looked, sent;
};

struct output *output_share(const char *restart_count)
{
	void *memory = mmap(NULL, sizeof(struct output), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct output *output = memory == MAP_FAILED ? NULL : memory;

	if (output)
		stepd_copy_number(output->submitted_count, restart_count);
	return output;
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "reg";
	case S_IFIFO:
		return "fifo";
	case S_IFCHR:
		return "chr";
	case S_IFDIR:
		return "dir";
	case S_IFSOCK:
		return "sock";
	default:
		return "other";
	}
}

void output_look(struct output *output, const char *restart_count)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		struct stat status;
		char link[32];

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t size = readlink(link, output->descriptor[fd].target, sizeof(output->descriptor[fd].target));

		output->descriptor[fd].target_size = size > 0 ? (size_t)size : 0;
		if (fstat(fd, &status) == 0)
			snprintf(output->descriptor[fd].id, sizeof(output->descriptor[fd].id), "%llu:%llu:%s",
				 (unsigned long long)status.st_dev, (unsigned long long)status.st_ino, type_name(status.st_mode));
	}
	if (!getcwd(output->work_dir, sizeof(output->work_dir)))
		output->work_dir[0] = '\0';
	stepd_copy_number(output->restart_count, restart_count);
	if (strcmp(output->restart_count, output->submitted_count) == 0)
		output->restart_count[0] = '\0';
	atomic_store(&output->looked, true);
}

bool output_add(const struct output *output, struct wire *wire)
{
	if (!atomic_load(&output->looked))
		return false;
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		size_t size = output->descriptor[fd].target_size, room = sizeof(output->descriptor[fd].target);

		wire_add(wire, names[fd], output->descriptor[fd].target, size < room ? size : room);
		wire_add(wire, id_names[fd], output->descriptor[fd].id,
			 strnlen(output->descriptor[fd].id, sizeof(output->descriptor[fd].id)));
	}
	wire_add(wire, "work_dir", output->work_dir, strnlen(output->work_dir, sizeof(output->work_dir)));
	return true;
}

const char *output_restart_count(const struct output *output)
{
	return output->restart_count;
}

void output_mark_sent(struct output *output)
{
	atomic_store(&output->sent, true);
}

bool output_is_sent(const struct output *output)
{
	return atomic_load(&output->sent);
}
