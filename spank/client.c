/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

/* Where Slurm keeps an option's value for stepd and for the sruns inside a job (spank(8)). */
#define OPTION_ENV "_SLURM_SPANK_OPTION_stepguard_auto_resume"
#define INHERITED_ENV "SLURM_SPANK_" OPTION_ENV

/* More occurrences than this on one command line are refused. */
#define OWN_MAX 16

static int take_option(int val, const char *value, int remote);

static struct spank_option option = {
	.name = "auto-resume",
	.arginfo = "0|1",
	.usage = "[stepguard] 1: start this step again when a node or a GPU under it dies",
	.has_arg = 1, /* with an optional argument, `--auto-resume 1` would run the program 1 */
	.cb = take_option,
};

static struct {
	struct settings settings;
	int listings;  /* lines of plugstack.conf that name this plugin: Slurm loads each, dlopen makes them one */
	int post_opts; /* calls of init_post_opt: one a listing, for each component of a heterogeneous command line */
	bool given;    /* on the command line or, for sbatch, in the script */
	bool guarded;  /* the value of the last one given */
	bool inherited;
	int own[OWN_MAX]; /* where each one given ends: the index of the word after it */
	int own_count;
} client;

int client_init(spank_t spank, int count, char **arguments)
{
	if (client.listings++ > 0)
		return 0;
	settings_read(&client.settings, count, arguments);
	/* It fails only for want of memory, which Slurm does not survive either. */
	return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int client_register_remote(spank_t spank)
{
	/* srun tells stepd of every option that it saw, and stepd logs an error for one that it does not know. */
	if (client.listings++ == 0)
		spank_option_register(spank, &option);
	return 0;
}

static int refuse_value(const char *value)
{
	slurm_spank_log("stepguard: bad value: " STEPGUARD_OPTION "=%s: write " STEPGUARD_OPTION
			"=1 to guard this step, or leave the option out",
			value);
	return -1;
}

static int take_option(int val, const char *value, int remote)
{
	(void)val;
	if (remote)
		return 0;
	/* getopt's own argument, or a copy out of the environment: Slurm does not say which. */
	if (!value || value != optarg) {
		client.inherited = true;
		return 0;
	}
	client.given = true;
	if (spank_context() == S_CTX_ALLOCATOR)
		return 0;
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return refuse_value(value);
	if (client.own_count == OWN_MAX) {
		slurm_spank_log("stepguard: " STEPGUARD_OPTION " is given more than %d times: write it once", OWN_MAX);
		return -1;
	}
	client.guarded = value[0] == '1';
	client.own[client.own_count++] = optind;
	return 0;
}

/* Nothing that this program starts, here or on a node, sees the option. */
static void forget_option(spank_t spank)
{
	unsetenv(OPTION_ENV);
	unsetenv(INHERITED_ENV);
	spank_job_control_unsetenv(spank, OPTION_ENV);
}

/* Takes our own option out of the words; keeps *command_at on the program. Returns 0, or -1 if an occurrence is not
 * where getopt saw it. */
static int drop_own(struct words *words, int *command_at)
{
	char **kept = words->word;

	for (int i = 0; i < client.own_count; i++) {
		int last = client.own[i] - 1;
		/* `--auto-resume=1`, or two words of which the second is the value alone. */
		int first = last > 0 && last < words->count && words->word[last][0] != '-' ? last - 1 : last;

		if (first < 1 || last >= *command_at)
			return -1;
		for (int j = first; j <= last; j++)
			words->word[j] = NULL;
	}
	for (int i = 0, at = *command_at, count = words->count; i < count; i++) {
		if (words->word[i])
			*kept++ = words->word[i];
		else
			*command_at -= i < at, words->count--;
	}
	*kept = NULL;
	return 0;
}

/* Returns only when the step could not be guarded; `why` says why. */
static void guard_step(struct words *words, int command_at, const struct stepguard_answer *answer, char *why, size_t why_size)
{
	bool own_config = client.settings.config && !getenv("STEPGUARD_CONFIG");

	if (drop_own(words, &command_at) != 0) {
		snprintf(why, why_size, "srun's arguments are not where getopt saw them");
		return;
	}
	setenv("STEPGUARD_SUPERVISED", answer->guard, 1);
	if (own_config)
		setenv("STEPGUARD_CONFIG", client.settings.config, 1);
	supervise(words->word, words->count, command_at, why, why_size);
	unsetenv("STEPGUARD_SUPERVISED");
	if (own_config)
		unsetenv("STEPGUARD_CONFIG");
}

static int go_on_unguarded(const char *why)
{
	if (client.settings.broken_refuses) {
		slurm_spank_log("stepguard: this step is not started, for it could not be guarded: %s: "
				"see `" STEPGUARD_PREFIX "/bin/stepguard doctor`",
				why);
		exit(EXIT_BROKEN);
	}
	slurm_spank_log("stepguard: this step runs without " STEPGUARD_OPTION ": %s: see `" STEPGUARD_PREFIX
			"/bin/stepguard doctor`",
			why);
	return 0;
}

/* Where the command of this component is: getopt counts from the ":" before the component, or from the program's name. */
static int command_at(const struct words *words, int component)
{
	int start = 0;

	while (component > 0 && ++start < words->count)
		component -= strcmp(words->word[start], ":") == 0;
	return start + optind;
}

/* Asks the bridge about this command line, which stays in `words`. */
static int ask_about(struct words *words, int program, int component, struct stepguard_answer *answer)
{
	if (words_read(words) != 0) {
		snprintf(answer->text, sizeof(answer->text), "cannot read /proc/self/cmdline: %s", strerror(errno));
		return STEPGUARD_BROKEN;
	}
	char script[4096] = "";
	int at = program == STEPGUARD_ALLOCATOR ? command_at(words, component) : optind;
	int fd = -1;

	if (program == STEPGUARD_ALLOCATOR && at < words->count)
		fd = submission_open(words, at, script, sizeof(script));
	if (fd >= 0)
		close(fd);
	struct stepguard_question question = {
		.program = program,
		.component = component,
		.inherited = !client.given,
		.command_at = at,
		.words = words->bytes,
		.words_size = words->size,
		.script = script[0] ? script : NULL,
	};

	return ask(&question, answer);
}

static int srun_post_opt(int component)
{
	static struct stepguard_answer answer;
	struct words words;

	if (!client.given) {
		if (component == 0)
			slurm_spank_log("stepguard: " STEPGUARD_OPTION " in the environment (" INHERITED_ENV
					") guards no step: this one runs without it: write srun " STEPGUARD_OPTION "=1");
		return 0;
	}
	if (!client.guarded)
		return 0;
	switch (ask_about(&words, STEPGUARD_SRUN, component, &answer)) {
	case STEPGUARD_GUARD:
		guard_step(&words, optind, &answer, answer.text, sizeof(answer.text));
		go_on_unguarded(answer.text);
		break;
	case STEPGUARD_REFUSE:
		slurm_spank_log("%s", answer.text);
		exit(EXIT_PLACEMENT);
	case STEPGUARD_PLAIN:
		break;
	default:
		go_on_unguarded(answer.text);
	}
	words_free(&words);
	return 0;
}

static int allocator_post_opt(int component)
{
	static struct stepguard_answer answer;
	struct words words;

	/* The refusal does not depend on Python: without it, it only cannot quote the script. */
	if (ask_about(&words, STEPGUARD_ALLOCATOR, component, &answer) == STEPGUARD_REFUSE)
		slurm_spank_log("%s", answer.text);
	else
		slurm_spank_log("stepguard: " STEPGUARD_OPTION " guards one step and belongs on its srun, not on sbatch or "
				"salloc: remove it and write srun " STEPGUARD_OPTION "=1 in the job");
	words_free(&words);
	if (!client.settings.misplaced_warns)
		exit(EXIT_PLACEMENT);
	slurm_spank_log("stepguard: the job goes on without " STEPGUARD_OPTION);
	return 0;
}

int client_post_opt(spank_t spank)
{
	int call = client.post_opts++;
	bool is_srun = spank_context() == S_CTX_LOCAL;

	if (call % client.listings != 0)
		return 0;
	if (!client.given && !client.inherited) {
		if (!is_srun && client.settings.lint != LINT_OFF)
			submission_check(client.settings.lint == LINT_REJECT);
		return 0;
	}
	forget_option(spank);
	return is_srun ? srun_post_opt(call / client.listings) : allocator_post_opt(call / client.listings);
}
