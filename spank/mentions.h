/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEPGUARD_MENTIONS_H
#define STEPGUARD_MENTIONS_H

#include <stddef.h>

enum {
	MENTIONS_OPTION = 1, /* --auto-resume, in any way of writing it */
	MENTIONS_NODES = 2,  /* which nodes the job was started with, or how many */
	MENTIONS_BOTH = MENTIONS_OPTION | MENTIONS_NODES,
};

/* Which of these the rest of a file mentions, anywhere: in comments too. Reads until it has found both, at most
 * size_max bytes and a chunk; what cannot be read mentions nothing more. */
unsigned mentions_in(int fd, size_t size_max);

#endif
