/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks through a job script for words, at the speed of memory: every sbatch waits for it.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "mentions.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define CHUNK (64 * 1024)
#define BLOCK 256
#define WORD_MAX 16

/* What counts. python/stepguard/scripts/variables.py has the variables as wholes; here they count in pieces, too
 * ("${PREFIX}_NODELIST"). */
static const struct {
	const char *word;
	size_t anchor_at;
	unsigned what;
} wanted[] = {
	{ "auto-r", 3, MENTIONS_OPTION },      /* as short as anybody writes it */
	{ "auto_resume", 3, MENTIONS_OPTION }, /* the variable by which Slurm hands it on */
	{ "NODELIST", 2, MENTIONS_NODES },
	{ "SLURM_NNODES", 6, MENTIONS_NODES },
	{ "JOB_NUM_NODES", 2, MENTIONS_NODES },
	{ "show hostn", 3, MENTIONS_NODES }, /* hostnames, of scontrol, which needs no argument */
};

/* A few letters of each of these words, which hardly anything else has in this order. */
#define OPTION_ANCHOR(c) ((c)[0] == 'o' & ((c)[1] == '-' | (c)[1] == '_') & (c)[2] == 'r')
#define NODES_ANCHOR(c)                                                    \
	(((c)[0] == 'D' & (c)[1] == 'E' & (c)[2] == 'L') |                 \
	 ((c)[0] == 'N' & (c)[1] == 'N' & (c)[2] == 'O') |                 \
	 ((c)[0] == 'B' & (c)[1] == '_' & (c)[2] == 'N' & (c)[3] == 'U') | \
	 ((c)[0] == 'w' & (c)[1] == ' ' & (c)[2] == 'h'))
#define EITHER_ANCHOR(c) (OPTION_ANCHOR(c) | NODES_ANCHOR(c))
#pragma GCC diagnostic ignored "-Wparentheses"

/* Whether an anchor begins in the block. Without branches, so that compilers look at many places in one instruction. */
#define FINDER(name, anchor)                                         \
	static bool name(const unsigned char *block)                 \
	{                                                            \
		unsigned char found = 0;                             \
		for (size_t i = 0; i < BLOCK; i++)                   \
			found |= (unsigned char)(anchor(block + i)); \
		return found;                                        \
	}
FINDER(has_either_anchor, EITHER_ANCHOR)
FINDER(has_nodes_anchor, NODES_ANCHOR)
FINDER(has_option_anchor, OPTION_ANCHOR)

/* The words that have their anchor there. */
static unsigned words_around(const unsigned char *text, size_t anchor)
{
	unsigned found = 0;

	for (size_t i = 0; i < LENGTH(wanted); i++)
		if (anchor >= wanted[i].anchor_at &&
		    memcmp(text + anchor - wanted[i].anchor_at, wanted[i].word, strlen(wanted[i].word)) == 0)
			found |= wanted[i].what;
	return found;
}

static unsigned words_in_block(const unsigned char *text, size_t block)
{
	unsigned found = 0;

	for (size_t at = block; at < block + BLOCK; at++)
		if (EITHER_ANCHOR(text + at))
			found |= words_around(text, at);
	return found;
}

/* `text` has room for a block and a word behind its end, all zero. */
static unsigned look_through(const unsigned char *text, size_t size, unsigned found)
{
	/* By what was found before. */
	static bool (*const finders[])(const unsigned char *block) = {
		[0] = has_either_anchor,
		[MENTIONS_OPTION] = has_nodes_anchor,
		[MENTIONS_NODES] = has_option_anchor,
	};

	for (size_t block = 0; block < size && found != MENTIONS_BOTH; block += BLOCK)
		if (finders[found](text + block))
			found |= words_in_block(text, block);
	return found;
}

unsigned mentions_in(int fd, size_t size_max)
{
	unsigned char text[WORD_MAX + CHUNK + BLOCK + WORD_MAX];
	unsigned found = 0;
	size_t kept = 0;

	for (size_t total = 0; total <= size_max && found != MENTIONS_BOTH;) {
		ssize_t got = read(fd, text + kept, CHUNK);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		total += (size_t)got;
		size_t size = kept + (size_t)got;

		memset(text + size, 0, BLOCK + WORD_MAX);
		found = look_through(text, size, found);
		/* What began at the end goes on in the next chunk. */
		kept = size < WORD_MAX ? size : WORD_MAX;
		memmove(text, text + size - kept, kept);
	}
	return found;
}
