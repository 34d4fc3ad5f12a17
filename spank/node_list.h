/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that a host list in Slurm's syntax stands for: "n[01-03,7],login", several brackets too. The same names in
 * the same order as slurm/hostlist.py's expand, and held to `scontrol show hostnames` as that is: what scontrol lets
 * pass by accident ("n[1", a text behind the last bracket) is no list here.
 */
#ifndef STEPGUARD_NODE_LIST_H
#define STEPGUARD_NODE_LIST_H

#include <stdint.h>

#define NODE_LIST_NAMES_MAX 65536 /* as Slurm has it for one range (MAX_RANGE in hostlist.c) */
#define NODE_NAME_MAX 255
#define NODE_LIST_BRACKETS_MAX 8 /* of one element */

struct node_bracket {
	const char *prefix; /* what stands before it */
	int prefix_length;
	const char *inside;
	const char *next_range; /* inside, behind the range that is given out now; NULL behind the last */
	uint64_t value, last;
	int width;
};

struct node_list {
	const char *at; /* what was not read yet */
	uint32_t count; /* of the names given out */
	const char *wrong; /* what is, once it ended: NULL for a list that was read to its end */
	struct node_bracket bracket[NODE_LIST_BRACKETS_MAX];
	int bracket_count; /* of the element in progress; 0 when there is none */
	char name[NODE_NAME_MAX + 1];
};

/* `text` is not copied. */
void node_list_begin(struct node_list *list, const char *text);

/* The next name, good until the next call, or NULL. Allocates nothing. */
const char *node_list_next(struct node_list *list);

#endif
