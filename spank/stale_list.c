/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_list.h"
#include "stale_list.h"

#define SHOWN_MAX 256 /* characters of a list in the line */

/* Names by their hashes alone. Two that have one hash would hide a contradiction: of 65536 names, once in 10^9 lists. */
struct names {
	uint64_t *slot; /* 0: free; at least half of them are */
	size_t slots;   /* a power of two */
	uint32_t count;
};

static uint64_t hash(const char *name)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 1099511628211u;
	return hash ? hash : 1;
}

static uint64_t *find_slot(const struct names *names, const char *name)
{
	uint64_t wanted = hash(name);
	size_t at = (wanted >> 20) & (names->slots - 1);

	while (names->slot[at] && names->slot[at] != wanted)
		at = (at + 1) & (names->slots - 1);
	return &names->slot[at];
}

/* The slots are to be freed either way. */
static bool read_names(struct names *names, const char *text)
{
	struct node_list list;
	const char *name;

	*names = (struct names){ .slots = 2 };
	node_list_begin(&list, text);
	while (node_list_next(&list))
		;
	if (list.wrong || list.count == 0)
		return false;
	while (names->slots < 2 * (size_t)list.count)
		names->slots *= 2;
	names->slot = calloc(names->slots, sizeof(*names->slot));
	if (!names->slot)
		return false;
	node_list_begin(&list, text);
	while ((name = node_list_next(&list))) {
		uint64_t *slot = find_slot(names, name);

		names->count += *slot == 0;
		*slot = hash(name);
	}
	return true;
}

static bool has_all(const struct names *names, const char *text)
{
	struct node_list list;
	const char *name;

	node_list_begin(&list, text);
	while ((name = node_list_next(&list)))
		if (*find_slot(names, name) == 0)
			return false;
	return true;
}

static bool read_count(const char *text, uint32_t *count)
{
	size_t digits = strspn(text, "0123456789");

	*count = (uint32_t)strtoul(text, NULL, 10);
	return digits > 0 && digits < 10 && text[digits] == '\0';
}

/* For a terminal: cut, and nothing in it that could be more than a character. */
static const char *shown(char buffer[SHOWN_MAX + 4], const char *text)
{
	size_t length = strnlen(text, SHOWN_MAX + 1);

	snprintf(buffer, SHOWN_MAX + 4, "%.*s%s", SHOWN_MAX, text, length > SHOWN_MAX ? "..." : "");
	for (char *at = buffer; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return buffer;
}

static void say_list(char line[STALE_LINE_MAX], const char *variable, const char *list, const char *step_nodes,
		     uint32_t job_id, uint32_t step_id)
{
	char says[SHOWN_MAX + 4], runs_on[SHOWN_MAX + 4];

	snprintf(line, STALE_LINE_MAX,
		 "stepguard: %s is stale: step %u.%u runs on %s, the list says %s; use SLURM_STEP_NODELIST or: stepguard nodes",
		 variable, (unsigned)job_id, (unsigned)step_id, shown(runs_on, step_nodes), shown(says, list));
}

static void say_number(char line[STALE_LINE_MAX], const char *variable, const char *number, uint32_t step_count,
		       const char *list, uint32_t job_id, uint32_t step_id)
{
	char says[SHOWN_MAX + 4], listed[SHOWN_MAX + 4];

	snprintf(line, STALE_LINE_MAX,
		 "stepguard: %s is stale: step %u.%u runs on %u node%s, the number says %s, SLURM_JOB_NODELIST %s; "
		 "use SLURM_STEP_NUM_NODES or: stepguard nodes --count",
		 variable, (unsigned)job_id, (unsigned)step_id, (unsigned)step_count, step_count == 1 ? "" : "s",
		 shown(says, number), shown(listed, list ? list : "is unset"));
}

struct judge {
	const struct node_variables *variables;
	uint32_t counts[3]; /* that a number may be: of the step's nodes, of SLURM_JOB_NODELIST and of SLURM_NODELIST */
};

static bool read_size(const char *text, uint32_t *count)
{
	struct names names;
	bool good = read_names(&names, text);

	*count = names.count;
	free(names.slot);
	return good;
}

/* 1: stale, 0: not, -1: no judgement. */
static int judge_list(struct judge *judge, const char *list, uint32_t *count)
{
	const char *step_nodes = judge->variables->step_node_list;
	struct names names;
	int stale = -1;

	*count = judge->counts[0];
	if (!list || strcmp(list, step_nodes) == 0)
		return 0;
	if (read_names(&names, list)) {
		*count = names.count;
		stale = !has_all(&names, step_nodes);
	}
	free(names.slot);
	return stale;
}

/* The step's own number is srun's for SLURM_NNODES, unless it was told to leave it (--preserve-env). */
static bool is_stale_number(const struct judge *judge, const char *number, bool may_be_step)
{
	uint32_t count;

	if (!number || !read_count(number, &count))
		return false;
	return !(may_be_step && count == judge->counts[0]) && count != judge->counts[1] && count != judge->counts[2];
}

static const char *judge_all(struct judge *judge, uint32_t job_id, uint32_t step_id, char line[STALE_LINE_MAX])
{
	const struct node_variables *variables = judge->variables;
	const char *step_nodes = variables->step_node_list;
	uint32_t said;

	/* What contradicts itself is no measure for others. */
	if (!read_size(step_nodes, &judge->counts[0]) || !read_count(variables->step_num_nodes, &said) ||
	    said != judge->counts[0])
		return NULL;
	int job_list = judge_list(judge, variables->job_node_list, &judge->counts[1]);

	if (job_list > 0) {
		say_list(line, "SLURM_JOB_NODELIST", variables->job_node_list, step_nodes, job_id, step_id);
		return "SLURM_JOB_NODELIST";
	}
	int list = judge_list(judge, variables->node_list, &judge->counts[2]);

	if (list > 0) {
		say_list(line, "SLURM_NODELIST", variables->node_list, step_nodes, job_id, step_id);
		return "SLURM_NODELIST";
	}
	if (job_list < 0 || list < 0)
		return NULL;
	const char *stale = NULL, *number = NULL;

	if (is_stale_number(judge, variables->job_num_nodes, false))
		stale = "SLURM_JOB_NUM_NODES", number = variables->job_num_nodes;
	else if (is_stale_number(judge, variables->nnodes, true))
		stale = "SLURM_NNODES", number = variables->nnodes;
	if (stale)
		say_number(line, stale, number, judge->counts[0], variables->job_node_list, job_id, step_id);
	return stale;
}

static bool is_same(const char *value, const char *step_value)
{
	return !value || strcmp(value, step_value) == 0;
}

const char *stale_list_find(const struct node_variables *variables, uint32_t job_id, uint32_t step_id,
			    char line[STALE_LINE_MAX])
{
	struct judge judge = { .variables = variables };

	if (!variables->step_node_list || !variables->step_num_nodes)
		return NULL;
	/* So it is for most steps. */
	if (is_same(variables->job_node_list, variables->step_node_list) &&
	    is_same(variables->node_list, variables->step_node_list) &&
	    is_same(variables->job_num_nodes, variables->step_num_nodes) &&
	    is_same(variables->nnodes, variables->step_num_nodes))
		return NULL;
	return judge_all(&judge, job_id, step_id, line);
}
