/* SPDX-License-Identifier: Apache-2.0 */
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

static bool judge_lists(struct stale_list *found, struct judge *judge, uint32_t job_id, uint32_t step_id)
{
	const struct node_variables *variables = judge->variables;
	int job_list = judge_list(judge, variables->job_node_list, &judge->counts[1]);
	int list = job_list > 0 ? 0 : judge_list(judge, variables->node_list, &judge->counts[2]);

	if (job_list > 0 || list > 0) {
		const char *says = job_list > 0 ? variables->job_node_list : variables->node_list;

		found->variable = job_list > 0 ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST";
		say_list(found->line, found->variable, says, variables->step_node_list, job_id, step_id);
	}
	return job_list == 0 && list == 0;
}

static void judge_all(struct stale_list *found, struct judge *judge, uint32_t job_id, uint32_t step_id)
{
	const struct node_variables *variables = judge->variables;
	const char *number = NULL;
	uint32_t said;

	/* What contradicts itself is no measure for others. */
	if (!read_size(variables->step_node_list, &judge->counts[0]) ||
	    !read_count(variables->step_num_nodes, &said) || said != judge->counts[0] ||
	    !judge_lists(found, judge, job_id, step_id))
		return;
	found->names_more = judge->counts[1] > judge->counts[0] || judge->counts[2] > judge->counts[0];
	if (is_stale_number(judge, variables->job_num_nodes, false))
		found->variable = "SLURM_JOB_NUM_NODES", number = variables->job_num_nodes;
	else if (is_stale_number(judge, variables->nnodes, true))
		found->variable = "SLURM_NNODES", number = variables->nnodes;
	if (number)
		say_number(found->line, found->variable, number, judge->counts[0], variables->job_node_list, job_id, step_id);
}

static bool is_same(const char *value, const char *step_value)
{
	return !value || strcmp(value, step_value) == 0;
}

void stale_list_find(struct stale_list *found, const struct node_variables *variables, uint32_t job_id, uint32_t step_id)
{
	struct judge judge = { .variables = variables };

	found->variable = NULL;
	found->names_more = false;
	if (!variables->step_node_list || !variables->step_num_nodes)
		return;
	/* So it is for most steps. */
	if (is_same(variables->job_node_list, variables->step_node_list) &&
	    is_same(variables->node_list, variables->step_node_list) &&
	    is_same(variables->job_num_nodes, variables->step_num_nodes) &&
	    is_same(variables->nnodes, variables->step_num_nodes))
		return;
	judge_all(found, &judge, job_id, step_id);
}

/* The nodes of a list that have left, "n3,n5": more than are shown, where there are so many. Returns how many are written. */
static int list_left(char left[2 * SHOWN_MAX], const struct names *now, const char *text)
{
	struct node_list list;
	const char *name;
	size_t length = 0;
	int count = 0;

	node_list_begin(&list, text);
	while (length <= SHOWN_MAX && (name = node_list_next(&list)))
		if (*find_slot(now, name) == 0)
			length += (size_t)snprintf(left + length, 2 * SHOWN_MAX - length, "%s%s", count++ ? "," : "", name);
	return count;
}

static bool is_left_list(struct stale_list *found, const struct names *now, const char *variable, const char *list,
			 const char *job_nodes, uint32_t job_id)
{
	char left[2 * SHOWN_MAX], shown_left[SHOWN_MAX + 4], nodes[SHOWN_MAX + 4];
	int count = list ? list_left(left, now, list) : 0;

	if (count == 0)
		return false;
	found->variable = variable;
	snprintf(found->line, STALE_LINE_MAX,
		 "stepguard: %s is stale: %s %s left job %u (its nodes are %s); use SLURM_STEP_NODELIST or: stepguard nodes",
		 variable, shown(shown_left, left), count == 1 ? "has" : "have", (unsigned)job_id, shown(nodes, job_nodes));
	return true;
}

static bool is_left_number(struct stale_list *found, const struct names *now, const char *variable, const char *number,
			   const char *job_nodes, uint32_t job_id)
{
	char nodes[SHOWN_MAX + 4];
	uint32_t count;

	if (!number || !read_count(number, &count) || count <= now->count)
		return false;
	found->variable = variable;
	snprintf(found->line, STALE_LINE_MAX,
		 "stepguard: %s is stale: job %u has %u node%s, %s, the number says %u; "
		 "use SLURM_STEP_NUM_NODES or: stepguard nodes --count",
		 variable, (unsigned)job_id, (unsigned)now->count, now->count == 1 ? "" : "s", shown(nodes, job_nodes),
		 (unsigned)count);
	return true;
}

bool stale_list_find_left(struct stale_list *found, const struct node_variables *variables, const char *job_nodes,
			  uint32_t job_id)
{
	struct names now;
	bool has_left =
		read_names(&now, job_nodes) && has_all(&now, variables->step_node_list) &&
		(is_left_list(found, &now, "SLURM_JOB_NODELIST", variables->job_node_list, job_nodes, job_id) ||
		 is_left_list(found, &now, "SLURM_NODELIST", variables->node_list, job_nodes, job_id) ||
		 is_left_number(found, &now, "SLURM_JOB_NUM_NODES", variables->job_num_nodes, job_nodes, job_id) ||
		 is_left_number(found, &now, "SLURM_NNODES", variables->nnodes, job_nodes, job_id));

	free(now.slot);
	return has_left;
}
