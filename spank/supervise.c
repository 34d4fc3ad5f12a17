/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

#define PYTHON STEPGUARD_PREFIX "/venv/bin/python"
#define COMMAND STEPGUARD_PREFIX "/bin/stepguard"

/* As the first line of COMMAND says, which the kernel would cut where PREFIX is long. */
static const char *const head[] = { PYTHON, "-IS", COMMAND, "supervise", "--command-at" };

#define HEAD_WORDS (sizeof(head) / sizeof(head[0]))

/* What srun waits for itself, also where its parent had it ignored (a shell does, for a command in the background). Up
 * to 25.11 it blocks these before it loads plugins; since 26.05 it catches them. The supervisor gets them all as well. */
static const int awaited[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCONT, SIGWINCH };

static void release_signals(sigset_t *before)
{
	struct sigaction action;
	sigset_t none;

	for (size_t i = 0; i < sizeof(awaited) / sizeof(awaited[0]); i++)
		if (sigaction(awaited[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			signal(awaited[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, before);
}

void supervise(char **words, int count, int command_at, char *why, size_t why_size)
{
	char at[16];
	sigset_t before;
	char **argv;

	/* Python would end with an error of its own, and the step with it. */
	if (access(COMMAND, R_OK) != 0) {
		snprintf(why, why_size, "cannot start the supervisor: %s: %s", COMMAND, strerror(errno));
		return;
	}
	argv = calloc(HEAD_WORDS + 2 + (size_t)count + 1, sizeof(*argv));
	if (!argv) {
		snprintf(why, why_size, "cannot start the supervisor: %s", strerror(errno));
		return;
	}
	snprintf(at, sizeof(at), "%d", command_at);
	memcpy(argv, head, sizeof(head));
	argv[HEAD_WORDS] = at;
	argv[HEAD_WORDS + 1] = "--";
	memcpy(argv + HEAD_WORDS + 2, words, (size_t)count * sizeof(*words));
	release_signals(&before);
	/* Since 26.05 srun has threads by now: the idle workers of its connection manager, which end here. Nothing has been
	 * asked of slurmctld yet, and all descriptors of srun's own are close-on-exec (looked up on 22.05, 24.11, 26.05). */
	execv(PYTHON, argv);
	snprintf(why, why_size, "cannot start the supervisor: %s: %s", PYTHON, strerror(errno));
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(argv);
}
