/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the plugin as srun, sbatch, salloc and slurmstepd do (spank.c and the opt.c of each, 22.05): plugstack.conf,
 * dlopen RTLD_LAZY, init, options out of the environment, then of the job script, then of the command line, and
 * init_post_opt for each component. Its own command line is the one that is parsed, so /proc/self/cmdline is srun's.
 * What would run as a plain step is reported instead, as key=value lines on standard output.
 *
 *   HOST_CONTEXT    local (default), allocator, remote, slurmd
 *   HOST_PLUGSTACK  the plugstack.conf
 *   HOST_SCRIPT     a job script whose #SBATCH lines are read
 *   HOST_THREAD     set: a second thread runs when the plugin is asked
 *   HOST_TASK       remote: slurmstepd goes on to the exec of the task with this local id, whose environment is reported
 *   HOST_TWICE      remote: set: that environment has each entry twice
 */
#include <ctype.h>
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "host_task.h"

#define PLUGINS_MAX 4
#define WORDS_MAX 256
#define OPTION_BASE 1000

struct plugin {
	const char *name;
	spank_f *post_opt;
	spank_f *task_init;
	struct spank_option option;
	bool has_option;
	const char *value;
	int argc;
	char *argv[16];
};

static struct plugin plugins[PLUGINS_MAX];
static int plugin_count, registered;
static struct plugin *initializing;
static spank_context_t context = S_CTX_LOCAL;
static char job_control[512];

/* -- what Slurm offers to a plugin --------------------------------------------------------------------------------- */

static void say(const char *prefix, const char *format, va_list arguments)
{
	fputs(prefix, stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

#define LOGGER(name, prefix)                     \
	void name(const char *format, ...)       \
	{                                        \
		va_list arguments;               \
		va_start(arguments, format);     \
		say(prefix, format, arguments);  \
		va_end(arguments);               \
	}
LOGGER(slurm_spank_log, "")
LOGGER(slurm_error, "error: ")

spank_context_t spank_context(void)
{
	return context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	registered++;
	/* Slurm disables the second of a name. */
	for (int i = 0; i < plugin_count; i++)
		if (plugins[i].has_option && strcmp(plugins[i].option.name, option->name) == 0)
			return ESPANK_SUCCESS;
	initializing->option = *option;
	initializing->has_option = true;
	return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_unsetenv(spank_t spank, const char *name)
{
	(void)spank;
	if (strcmp(job_control, name) == 0)
		job_control[0] = '\0';
	return ESPANK_SUCCESS;
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

/* Slurm looks for these too, and calls or reads what it finds. */
static const char *const absent[] = {
	"init", "fini", "spank_options", "slurm_spank_init_failure_mode", "slurm_spank_job_prolog",
	"slurm_spank_local_user_init", "slurm_spank_user_init", "slurm_spank_task_init_privileged",
	"slurm_spank_task_post_fork", "slurm_spank_job_epilog", "slurm_spank_slurmd_exit",
};

static void die(const char *what)
{
	fprintf(stderr, "host: %s: %s\n", what, dlerror());
	exit(100);
}

static void load(char *line)
{
	char *save = NULL;
	char *word = strtok_r(line, " \t\n", &save); /* optional */
	struct plugin *plugin = &plugins[plugin_count];

	if (!word || !(word = strtok_r(NULL, " \t\n", &save)))
		return;
	void *handle = dlopen(word, RTLD_LAZY);

	if (!handle)
		die(word);
	while ((word = strtok_r(NULL, " \t\n", &save)))
		plugin->argv[plugin->argc++] = strdup(word);
	plugin->name = dlsym(handle, "plugin_name");
	const unsigned int *version = dlsym(handle, "plugin_version");
	spank_f *init = (spank_f *)dlsym(handle, "slurm_spank_init");

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		if (dlsym(handle, absent[i]))
			die(absent[i]);

	if (!plugin->name || !version || *version != SLURM_VERSION_NUMBER || !init)
		die("plugin symbols");
	plugin->post_opt = (spank_f *)dlsym(handle, "slurm_spank_init_post_opt");
	plugin->task_init = (spank_f *)dlsym(handle, "slurm_spank_task_init");
	initializing = plugin;
	plugin_count++;
	if (init(NULL, plugin->argc, plugin->argv) != 0)
		die("init failed");
}

static void load_all(const char *path)
{
	char line[4096];
	FILE *file = path ? fopen(path, "r") : NULL;

	if (!file)
		die("HOST_PLUGSTACK");
	while (plugin_count < PLUGINS_MAX && fgets(line, sizeof(line), file))
		load(line);
	fclose(file);
}

/* -- options ------------------------------------------------------------------------------------------------------- */

static void variable(const struct plugin *plugin, const char *prefix, char *name, size_t size)
{
	snprintf(name, size, "%s_SLURM_SPANK_OPTION_%s_%s", prefix, plugin->name, plugin->option.name);
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
}

static int deliver(struct plugin *plugin, const char *value)
{
	plugin->value = strdup(value ? value : "(null)");
	return plugin->option.cb(plugin->option.val, value, context == S_CTX_REMOTE);
}

static void options_from_environment(void)
{
	char name[512];

	for (int i = 0; i < plugin_count; i++) {
		if (!plugins[i].has_option)
			continue;
		variable(&plugins[i], "SLURM_SPANK_", name, sizeof(name));
		const char *value = getenv(name);

		if (value && deliver(&plugins[i], value) != 0) {
			fprintf(stderr, "error: Invalid argument (%s) for environment variable: %s\n", value, name);
			exit(1);
		}
	}
}

/* Parses one component; optind is then its program. */
static void parse(int argc, char **argv)
{
	struct option table[9 + PLUGINS_MAX] = {
		{ "ntasks", required_argument, NULL, 'n' },    { "nodes", required_argument, NULL, 'N' },
		{ "job-name", required_argument, NULL, 'J' },  { "jobid", required_argument, NULL, 'j' },
		{ "no-allocate", no_argument, NULL, 'Z' },     { "het-group", required_argument, NULL, 'h' },
		{ "async", no_argument, NULL, 'a' },	       { "chdir", required_argument, NULL, 'D' },
	};
	int used = 8;
	int letter;

	for (int i = 0; i < plugin_count; i++)
		if (plugins[i].has_option)
			table[used++] = (struct option){ plugins[i].option.name, plugins[i].option.has_arg, NULL, OPTION_BASE + i };
	optind = 0;
	while ((letter = getopt_long(argc, argv, "+n:N:J:D:Zv", table, NULL)) != -1) {
		if (letter == '?')
			exit(255);
		if (letter >= OPTION_BASE && deliver(&plugins[letter - OPTION_BASE], optarg) != 0) {
			fprintf(stderr, "error: Invalid --%s argument: %s\n", plugins[letter - OPTION_BASE].option.name, optarg);
			exit(255);
		}
	}
}

static void options_from_script(const char *path)
{
	char line[4096], *words[WORDS_MAX] = { "sbatch" };
	int count = 1;
	FILE *file = path ? fopen(path, "r") : NULL;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "#SBATCH", 7) != 0)
			continue;
		for (char *save = NULL, *word = strtok_r(line + 7, " \t\n", &save); word && count < WORDS_MAX - 1;
		     word = strtok_r(NULL, " \t\n", &save))
			words[count++] = strdup(word);
	}
	if (file)
		fclose(file);
	parse(count, words);
}

static void post_opt(void)
{
	char name[512];

	for (int i = 0; i < plugin_count; i++) {
		if (!plugins[i].has_option || !plugins[i].value)
			continue;
		variable(&plugins[i], "", name, sizeof(name));
		setenv(name, plugins[i].value, 1);
		snprintf(job_control, sizeof(job_control), "%s", name);
	}
	for (int i = 0; i < plugin_count; i++)
		if (plugins[i].post_opt && plugins[i].post_opt(NULL, plugins[i].argc, plugins[i].argv) != 0)
			fprintf(stderr, "error: init_post_opt() failed\n");
}

/* srun has a program for each component, sbatch and salloc have options alone before the last. */
static void run_components(int argc, char **argv)
{
	bool is_srun = context == S_CTX_LOCAL;

	for (int begin = 0; begin < argc;) {
		options_from_environment();
		if (!is_srun)
			options_from_script(getenv("HOST_SCRIPT"));
		parse(argc - begin, argv + begin);
		int end = begin + optind;

		while (end < argc && strcmp(argv[end], ":") != 0)
			end = is_srun ? end + 1 : argc;
		post_opt();
		begin = end;
	}
}

static void run_task(int local_id)
{
	task_make(local_id, getenv("HOST_TWICE") != NULL);
	for (int i = 0; i < plugin_count; i++)
		if (plugins[i].task_init && plugins[i].task_init(NULL, plugins[i].argc, plugins[i].argv) != 0)
			fprintf(stderr, "error: task_init() failed\n");
	task_report();
}

/* -- the report ---------------------------------------------------------------------------------------------------- */

static void report(void)
{
	char line[4096];
	bool python = false;
	struct sigaction action;
	sigset_t blocked;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		python = python || strstr(line, "libpython") || strstr(line, "bridge.so");
	fclose(maps);
	sigaction(SIGINT, NULL, &action);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	printf("python=%d\nregistered=%d\nsigint_default=%d\njob_control=%s\nblocked=", python, registered,
	       action.sa_handler == SIG_DFL, job_control);
	for (int number = 1; number < 32; number++)
		if (sigismember(&blocked, number))
			printf("%d ", number);
	putchar('\n');
	for (char **entry = environ; *entry; entry++)
		if (strstr(*entry, "SPANK") || strncmp(*entry, "STEPGUARD", 9) == 0)
			printf("env=%s\n", *entry);
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

int main(int argc, char **argv)
{
	static const int srun_blocks[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCONT, SIGWINCH };
	static const char *const contexts[] = { "error", "local", "remote", "allocator", "slurmd" };
	const char *wanted = getenv("HOST_CONTEXT");
	pthread_t thread;
	sigset_t blocked;

	for (int i = 0; wanted && i < 5; i++)
		if (strcmp(contexts[i], wanted) == 0)
			context = (spank_context_t)i;
	sigemptyset(&blocked);
	for (size_t i = 0; context == S_CTX_LOCAL && i < sizeof(srun_blocks) / sizeof(*srun_blocks); i++)
		sigaddset(&blocked, srun_blocks[i]);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (getenv("HOST_THREAD"))
		pthread_create(&thread, NULL, idle, NULL);
	load_all(getenv("HOST_PLUGSTACK"));
	switch (context) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		run_components(argc, argv);
		break;
	case S_CTX_REMOTE:
		for (int i = 0; i < plugin_count; i++)
			if (plugins[i].has_option)
				deliver(&plugins[i], "1");
		post_opt();
		if (getenv("HOST_TASK"))
			run_task(atoi(getenv("HOST_TASK")));
		break;
	default:
		break;
	}
	report();
	return 0;
}
