/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"
#include "wire.h"

/* Between two NULs, whatever else the compiler puts among the constants: `stepguard doctor` finds it in the file. */
static const char bridge_path[] = "\0" STEPGUARD_BRIDGE;

int ask(const struct stepguard_question *question, struct stepguard_answer *answer)
{
	answer->guard[0] = answer->text[0] = '\0';
	/* Never closed: a running interpreter cannot be unloaded. */
	void *bridge = dlopen(bridge_path + 1, RTLD_NOW | RTLD_LOCAL);
	/* POSIX has no other way from an object pointer to a function pointer. */
	union {
		void *object;
		stepguard_ask_f *function;
	} entry = { bridge ? dlsym(bridge, STEPGUARD_ASK_NAME) : NULL };

	if (!entry.object) {
		snprintf(answer->text, sizeof(answer->text), "cannot load the bridge: %s", dlerror());
		return STEPGUARD_BROKEN;
	}
	return entry.function(question, answer);
}

/* What the child writes and the parent reads. */
struct shared {
	int decision;
	struct stepguard_answer answer;
};

static void answer_in_child(const struct stepguard_question *question, struct shared *shared)
{
	int null = open("/dev/null", O_RDWR);

	/* What libraries have to say of a broken installation is nothing that a user could mend. */
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	shared->decision = ask(question, &shared->answer);
	_exit(0);
}

/* Waits until the other end of the pipe is closed, which the end of the child does. */
static bool has_ended(int fd, int deadline_ms)
{
	struct pollfd end = { .fd = fd };
	uint64_t last_ns = wire_clock_ns(CLOCK_MONOTONIC) + (uint64_t)deadline_ms * 1000000u;

	for (;;) {
		uint64_t now_ns = wire_clock_ns(CLOCK_MONOTONIC);
		int ready = poll(&end, 1, now_ns < last_ns ? (int)((last_ns - now_ns) / 1000000u) + 1 : 0);

		if (ready >= 0 || errno != EINTR)
			return ready > 0;
	}
}

static int hear(pid_t child, int fd, const struct shared *shared, struct stepguard_answer *answer, int deadline_ms)
{
	bool in_time = has_ended(fd, deadline_ms);

	if (!in_time)
		kill(child, SIGKILL);
	/* One that hangs on a file server does not even end by that. */
	while (waitpid(child, NULL, in_time ? 0 : WNOHANG) < 0 && errno == EINTR)
		;
	*answer = shared->answer;
	if (shared->decision == STEPGUARD_BROKEN && !answer->text[0])
		snprintf(answer->text, sizeof(answer->text), "%s", in_time ? "Python crashed" : "Python took too long");
	return shared->decision;
}

int ask_apart(const struct stepguard_question *question, struct stepguard_answer *answer, int deadline_ms)
{
	int decision = STEPGUARD_BROKEN;
	int ends[2] = { -1, -1 };
	struct shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Since 26.05 sbatch has other threads by now, idle ones. What libc has locks for, it puts in order in the child. */
	pid_t child = shared != MAP_FAILED && pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;

	if (child == 0)
		answer_in_child(question, shared);
	if (child < 0)
		snprintf(answer->text, sizeof(answer->text), "cannot start a child: %s", strerror(errno));
	close(ends[1]);
	if (child > 0)
		decision = hear(child, ends[0], shared, answer, deadline_ms);
	close(ends[0]);
	if (shared != MAP_FAILED)
		munmap(shared, sizeof(*shared));
	return decision;
}
