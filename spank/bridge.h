/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shim asks the bridge, and what it gets. bridge_build.py reads this file as well: plain C declarations
 * and lines of the preprocessor only.
 */
#ifndef STEPGUARD_BRIDGE_H
#define STEPGUARD_BRIDGE_H

#include <stddef.h>

/* The number goes up with every change below: in the middle of an upgrade, an srun may meet a bridge that is newer
 * than its shim, and then does not find it. */
#define STEPGUARD_ASK stepguard_ask_3
#define STEPGUARD_ASK_NAME "stepguard_ask_3"

enum stepguard_program {
	STEPGUARD_SRUN = 1,
	STEPGUARD_ALLOCATOR = 2,  /* sbatch, salloc, scrontab, scrun */
	STEPGUARD_SUBMISSION = 3, /* sbatch, about its job script */
};

/* 0 is what cffi returns when anything at all goes wrong in Python, so 0 is never an answer. */
enum stepguard_decision {
	STEPGUARD_BROKEN = 0,
	STEPGUARD_GUARD = 1,
	STEPGUARD_REFUSE = 2,
	STEPGUARD_PLAIN = 3, /* nothing to say: this srun is an attempt of a supervisor, this script is as it should be */
	STEPGUARD_FOUND = 4, /* something in the script should be changed */
	STEPGUARD_DOUBT = 5, /* something in it should be, unless the cluster is made for it */
};

struct stepguard_question {
	int program;
	int component;     /* of a heterogeneous command line, from 0 */
	int inherited;     /* the option came with the environment only */
	int command_at;    /* the command word: its index among the words, counted from 0 */
	const char *words; /* the command line, each word ended by a NUL */
	size_t words_size;
	const char *script; /* where the job script is; NULL where there is none that can be read */
};

struct stepguard_answer {
	char guard[64];  /* for STEPGUARD_GUARD: the value of STEPGUARD_SUPERVISED */
	char text[4096]; /* for the user, lines without a newline at the end; empty: nothing to say */
};

int stepguard_decide(const struct stepguard_question *question, struct stepguard_answer *answer);

/* What the shim calls: starts Python when it is not running, then stepguard_decide. For STEPGUARD_BROKEN, text says
 * what is broken. */
typedef int stepguard_ask_f(const struct stepguard_question *question, struct stepguard_answer *answer);

#endif
