/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node_list.h"
#include "resized.h"

#define DIGITS "0123456789"
#define VARIABLE_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_" DIGITS
#define CLUSTER_CHARACTERS "abcdefghijklmnopqrstuvwxyz-." VARIABLE_CHARACTERS

struct file {
	int fd; /* -1: there is none */
	struct stat status;
};

/* A job that was requeued, and an id that was given out again, may find the file of an earlier run. */
static bool is_of_this_run(const struct stat *status, const struct resized_place *place)
{
	const char *start = place->job_start;

	if (!start)
		return place->restart_count[0] == '\0' || strcmp(place->restart_count, "0") == 0;
	return start[strspn(start, DIGITS)] == '\0' && strlen(start) < 19 &&
	       status->st_mtim.tv_sec >= (time_t)strtoul(start, NULL, 10);
}

/* Somebody else's file in a directory that others can write to must not name nodes to the task: repair_nodelist. */
static struct file open_file(const char *path, const struct resized_place *place)
{
	struct file file = { .fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) };

	if (file.fd >= 0 && (fstat(file.fd, &file.status) != 0 || !S_ISREG(file.status.st_mode) ||
			     file.status.st_uid != place->uid || file.status.st_size == 0 ||
			     file.status.st_size > RESIZED_FILE_MAX || !is_of_this_run(&file.status, place))) {
		close(file.fd);
		file.fd = -1;
	}
	return file;
}

/* Where records/journal_place.py has it, for names of clusters that it takes as they are. */
static struct file open_supervisors(const struct resized_place *place)
{
	bool has_state = place->state_home && place->state_home[0] == '/';
	const char *base = has_state ? place->state_home : place->home, *cluster = place->cluster;
	char path[PATH_MAX];

	if (!base || base[0] != '/' || !cluster || cluster[0] == '\0' || cluster[0] == '.' ||
	    cluster[strspn(cluster, CLUSTER_CHARACTERS)] != '\0')
		return (struct file){ .fd = -1 };
	int size = snprintf(path, sizeof(path), "%s%s/stepguard/%s/%u/slurm_job_%u_resize.sh", base,
			    has_state ? "" : "/.local/state", cluster, (unsigned)place->job_id, (unsigned)place->job_id);

	return size > 0 && size < (int)sizeof(path) ? open_file(path, place) : (struct file){ .fd = -1 };
}

static bool is_newer(const struct stat *one, const struct stat *other)
{
	if (one->st_mtim.tv_sec != other->st_mtim.tv_sec)
		return one->st_mtim.tv_sec > other->st_mtim.tv_sec;
	return one->st_mtim.tv_nsec > other->st_mtim.tv_nsec;
}

/* What another process makes shorter or longer meanwhile is not whole. */
static char *read_whole(const struct file *file)
{
	size_t room = (size_t)file->status.st_size, size = 0;
	char *text = malloc(room + 2);
	ssize_t got = 1;

	while (text && got > 0 && size <= room && (got = read(file->fd, text + size, room + 1 - size)) > 0)
		size += (size_t)got;
	if (text)
		text[size] = '\0';
	if (text && (got < 0 || size != room || strlen(text) != room || text[room - 1] != '\n')) {
		free(text);
		return NULL;
	}
	return text;
}

/* NAME="VALUE" or NAME=7, which it cuts up; NULL for any other text, and for what a shell would expand. */
static char *take_value(char *assignment)
{
	char *value = assignment + strspn(assignment, VARIABLE_CHARACTERS);

	if (*value != '=')
		return NULL;
	*value++ = '\0';
	if (*value != '"')
		return *value && value[strspn(value, DIGITS)] == '\0' ? value : NULL;
	size_t length = strcspn(++value, "\"\\$`");

	if (value[length] != '"' || value[length + 1] != '\0')
		return NULL;
	value[length] = '\0';
	for (const char *at = value; *at; at++)
		if (*at < ' ' || *at > '~')
			return NULL;
	return value;
}

struct said {
	const char *node_list, *old_list, *num_nodes, *nnodes;
};

static bool take_line(struct said *said, char *line)
{
	if (strncmp(line, "unset SLURM_", 12) == 0)
		return line[12 + strspn(line + 12, VARIABLE_CHARACTERS)] == '\0';
	if (strncmp(line, "export SLURM_", 13) != 0)
		return false;
	const char *name = line + 13, *value = take_value(line + 13);
	const char **place = strcmp(name, "JOB_NODELIST") == 0  ? &said->node_list :
			     strcmp(name, "NODELIST") == 0      ? &said->old_list :
			     strcmp(name, "JOB_NUM_NODES") == 0 ? &said->num_nodes :
			     strcmp(name, "NNODES") == 0        ? &said->nnodes :
								  NULL;

	if (!value || (place && *place))
		return false;
	if (place)
		*place = value;
	return true;
}

static bool is_count(const char *number, uint32_t count)
{
	return !number || (strlen(number) < 10 && strtoul(number, NULL, 10) == count);
}

static bool parse(struct resized *resized)
{
	struct said said = { 0 };
	struct node_list list;

	for (char *line = resized->text, *end; *line; line = end + 1) {
		end = line + strcspn(line, "\n");
		*end = '\0';
		if (!take_line(&said, line))
			return false;
	}
	if (!said.node_list || strlen(said.node_list) > RESIZED_LIST_MAX ||
	    (said.old_list && strcmp(said.old_list, said.node_list) != 0))
		return false;
	node_list_begin(&list, said.node_list);
	while (node_list_next(&list))
		;
	resized->node_list = said.node_list;
	resized->count = list.count;
	return !list.wrong && list.count > 0 && is_count(said.num_nodes, list.count) && is_count(said.nnodes, list.count);
}

bool resized_read(struct resized *resized, const struct resized_place *place)
{
	char name[64];

	snprintf(name, sizeof(name), "slurm_job_%u_resize.sh", (unsigned)place->job_id);
	struct file own = open_file(name, place), supervisors = open_supervisors(place);
	bool takes_own = own.fd >= 0 && (supervisors.fd < 0 || is_newer(&own.status, &supervisors.status));
	const struct file *file = takes_own ? &own : &supervisors;

	*resized = (struct resized){ .text = file->fd >= 0 ? read_whole(file) : NULL };
	if (own.fd >= 0)
		close(own.fd);
	if (supervisors.fd >= 0)
		close(supervisors.fd);
	return resized->text && parse(resized);
}

void resized_free(struct resized *resized)
{
	free(resized->text);
	resized->text = NULL;
}
