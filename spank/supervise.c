/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

#define PYTHON STEPGUARD_PREFIX "/venv/bin/python"

static const char *const head[] = { PYTHON, "-I", "-m", "stepguard", "supervise", "--command-at" };

#define HEAD_WORDS (sizeof(head) / sizeof(head[0]))

/* exec ends every other thread without a word, and what it held with it. srun has none at this point (22.05 to 25.11
 * with auth/munge); other auth and tls plugins may. */
static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	if (!tasks)
		return -1;
	for (struct dirent *entry; (entry = readdir(tasks));)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* srun blocks ten signals before it loads plugins and waits for them with sigwait, which also gets those that its
 * parent set to be ignored (a shell does, for a command in the background). The supervisor gets them all as well. */
static void release_signals(sigset_t *before)
{
	struct sigaction action;
	sigset_t none;

	sigprocmask(SIG_SETMASK, NULL, before);
	for (int number = 1; number < NSIG; number++) {
		if (sigismember(before, number) != 1 || sigaction(number, NULL, &action) != 0)
			continue;
		if (action.sa_handler == SIG_IGN)
			signal(number, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void supervise(char **words, int count, int command_at, char *why, size_t why_size)
{
	char at[16];
	sigset_t before;
	int threads = count_threads();

	if (threads != 1) {
		snprintf(why, why_size, "srun has %d threads already, so it cannot become the supervisor", threads);
		return;
	}
	char **argv = calloc(HEAD_WORDS + 2 + (size_t)count + 1, sizeof(*argv));

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
	execv(PYTHON, argv);
	snprintf(why, why_size, "cannot start the supervisor: %s: %s", PYTHON, strerror(errno));
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(argv);
}
