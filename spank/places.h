/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of each task of a part in the whole step. A guarded step may run as several sruns, its parts; whoever
 * starts a part says in one entry of its environment where its tasks stand:
 *
 *   SLURM_STEPGUARD_PLACES=1;NAME=VALUE;...;@NODE=NODEID:RANKS;...
 *
 * The first field is the version. NAME=VALUE is a variable for all tasks of the part: NAME is SLURM_ or STEPGUARD_ and
 * more of A-Z, 0-9 and _, and none that a row gives. A row starts with @: a node (NodeName), its number in the whole,
 * and the whole's ranks of its tasks in the order of their local ids, as 0-3,8,11-12. Rows may be left out; with rows,
 * SLURM_NTASKS is among the variables and bounds the ranks. All is printable ASCII. That each rank is given once, over
 * all nodes and parts, is seen to by the one who writes it: nobody here sees all parts.
 */
#ifndef STEPGUARD_PLACES_H
#define STEPGUARD_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#define PLACES_NAME "SLURM_STEPGUARD_PLACES"

#define PLACES_TEXT_MAX (128 * 1024) /* bytes; the kernel takes no longer string (execve(2)) */
#define PLACES_VALUE_MAX (64 * 1024) /* bytes of any variable that comes out of it */
#define PLACES_VARIABLES_MAX 64
#define PLACES_RANKS_MAX 65536 /* on one node */

struct places {
	struct {
		const char *name;
		const char *value;
	} variable[PLACES_VARIABLES_MAX];
	int variable_count;
	bool has_rows; /* if so, this task's: */
	uint32_t rank;
	uint32_t node_id;
	char node_ranks[PLACES_VALUE_MAX + 1]; /* as in SLURM_GTIDS: 0,1,4 */

	int field; /* the one that was read last, from 1 */
};

/* Reads `text`, which is cut up and holds what *places points to, for the task `local_id` of `node`. Returns NULL, or
 * what is wrong with it; *places holds nothing of use then, except the field. */
const char *places_read(struct places *places, char *text, const char *node, int local_id);

#endif
