/* SPDX-License-Identifier: Apache-2.0
 *
 * Prolog, Epilog and HealthCheckProgram of slurmd: tells the agent what slurmd told it, in one message, and ends. Exits
 * with 0 whatever happens, except as a prolog in gate mode, with 1, when the agent says that this node's hardware fails.
 *
 * It trusts nothing of its environment: values are data, $STEPGUARD_CONFIG counts for nothing, and cwd, PATH and locale
 * do not matter. Its time is bounded by `deadline_ms`, a note's by the spool's disk (see spank/wire.h).
 *
 * Linked statically where libc.a is at hand, for to load libc is most of what it does. Median of 1000 runs in turn, to an
 * agent that answers at once (glibc 2.36): 0.67 ms and 52,000 instructions, linked dynamically 0.89 ms and 148,000;
 * /bin/true 0.62 ms and 110,000.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire.h"

#define ENVIRONMENT_MAX (512u << 10)
#define BODY_MAX (ENVIRONMENT_MAX + 4096)

extern char **environ;

/* Slurm gives its health check no context, only a name (22.05, 26.05). One that was not heard leaves no note: the next
 * one says the same, and in a week they would take the room of those of jobs. */
static const struct hook {
	const char *kind; /* also the name that it is installed by */
	const char *context;
	bool may_fail, may_note;
} hooks[] = {
	{ .kind = "prolog", .context = "prolog_slurmd", .may_fail = true, .may_note = true },
	{ .kind = "epilog", .context = "epilog_slurmd", .may_note = true },
	{ .kind = "health_check" },
};

static const struct hook *find_hook(const char *program)
{
	const char *context = getenv("SLURM_SCRIPT_CONTEXT"), *slash = strrchr(program, '/');

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (context ? hooks[i].context && strcmp(context, hooks[i].context) == 0 :
			      strcmp(slash ? slash + 1 : program, hooks[i].kind) == 0)
			return &hooks[i];
	return NULL;
}

/* What slurmd says of the job and its devices. It also gives SPANK_*, which users write. */
static bool is_slurms(const char *entry)
{
	static const char *const beginnings[] = { "SLURM", "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=",
						  "GPU_DEVICE_ORDINAL=", "ZE_AFFINITY_MASK=" };

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (strncmp(entry, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

/* A variable that is a decimal number, or NULL. */
static const char *get_number(const char *name)
{
	const char *value = getenv(name);
	size_t digits = value ? strspn(value, "0123456789") : 0;

	return digits > 0 && digits <= 20 && value[digits] == '\0' ? value : NULL;
}

/* slurmd waits for the end of its pipe, and the messages of hooks are lines of its log: 0 to 2 stay, nothing else. */
static void keep_only_standard_streams(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
#ifdef SYS_close_range
	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) == 0)
		return;
#endif
	getrlimit(RLIMIT_NOFILE, &limit); /* Linux before 5.9 */
	for (fd = STDERR_FILENO + 1; (rlim_t)fd < limit.rlim_cur && fd < 65536; fd++)
		close(fd);
}

static void compose(struct wire *wire, const struct hook *hook)
{
	static const struct {
		const char *field, *variable;
	} numbers[] = { { "job_id", "SLURM_JOB_ID" }, { "uid", "SLURM_JOB_UID" }, { "gid", "SLURM_JOB_GID" } };
	const char *node = getenv("SLURMD_NODENAME");

	wire_begin(wire, hook->kind, BODY_MAX);
	wire_add_times(wire);
	if (node && strlen(node) < 1024)
		wire_add_text(wire, "node", node);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (get_number(numbers[i].variable))
			wire_add_text(wire, numbers[i].field, get_number(numbers[i].variable));
	wire_add_list(wire, "environment", environ, is_slurms, ENVIRONMENT_MAX, WIRE_LONG_LEFT_OUT);
}

static void say(const struct hook *hook, const char *what)
{
	const char *job_id = get_number("SLURM_JOB_ID");

	fprintf(stderr, "stepguard: %s%s%s: %s\n", hook->kind, job_id ? " of job " : "", job_id ? job_id : "", what);
}

/* Returns the exit status. */
static int tell_agent(const struct hook *hook)
{
	struct agent_settings settings;
	struct wire wire;
	char reply[WIRE_REPLY_MAX], why[1024];

	agent_settings_read(&settings, NULL);
	compose(&wire, hook);
	wire_deliver(&wire, &settings, hook->may_note, reply, why, sizeof(why));
	wire_free(&wire);
	if (why[0] != '\0')
		say(hook, why);
	if (strncmp(reply, "fail ", 5) != 0)
		return 0;
	say(hook, reply + 5);
	return settings.gate && hook->may_fail;
}

int main(int argc, char **argv)
{
	const char *program = argc > 0 ? argv[0] : "";
	const struct hook *hook;

	signal(SIGPIPE, SIG_IGN);
	keep_only_standard_streams();
	hook = find_hook(program);
	if (hook)
		return tell_agent(hook);
	fprintf(stderr, "stepguard: %s: slurmd's Prolog, Epilog or HealthCheckProgram, and none of these now: nothing is done\n",
		program);
	return 0;
}
