/* SPDX-License-Identifier: Apache-2.0
 *
 * What sbatch tells of the job script that it was given. Whatever cannot be looked at is left alone, in silence.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mentions.h"
#include "shim.h"

#define SCRIPT_MAX (4u << 20) /* slurmctld's own default bound, max_script_size */
#define CHECK_MS 2000	      /* no submission waits longer; usually it takes 0.15 s */

static bool is_sbatch(const char *program)
{
	const char *slash = strrchr(program, '/');

	/* Sites that put a program of their own in its place call it sbatch.real and the like. */
	return strncmp(slash ? slash + 1 : program, "sbatch", strlen("sbatch")) == 0;
}

/* Whether sbatch's search ends here. *fd is the script, -1 for what is not to be read: it is not opened either, for the
 * other end of a pipe would notice. */
static bool is_found(const char *path, int *fd)
{
	struct stat status;

	if (stat(path, &status) != 0 || S_ISDIR(status.st_mode))
		return false;
	if (S_ISREG(status.st_mode) && status.st_size <= SCRIPT_MAX)
		*fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return true;
}

/* What --chdir says on the command line. Another option's value that looks like one only hides the script. */
static const char *chdir_given(const struct words *words, int end)
{
	const char *given = NULL;

	for (int i = 1; i < end; i++) {
		const char *word = words->word[i];
		const char *value = NULL;

		if (strncmp(word, "--chd", strlen("--chd")) == 0)
			value = strchr(word, '=');
		else if (word[0] == '-' && word[1 + strspn(word + 1, "hHIkKOQsvVWX")] == 'D') /* behind such without a value */
			value = strchr(word, 'D');
		else
			continue;
		given = value && value[1] ? value + 1 : words->word[i + 1];
	}
	return given;
}

/* sbatch(1), SCRIPT PATH RESOLUTION; tried on 22.05, 24.11 and 26.05. */
int submission_open(const struct words *words, int script_at, char *path, size_t size)
{
	const char *name = words->word[script_at];
	bool is_searched = name[0] != '.' && name[0] != '/';
	const char *first = is_searched ? chdir_given(words, script_at) : NULL;
	const char *folder = is_searched ? getenv("PATH") : NULL;
	int fd = -1;

	snprintf(path, size, "%s%s%s", first ? first : "", first ? "/" : "", name);
	for (bool found = is_found(path, &fd); !found && folder && *folder; folder += *folder == ':') {
		int length = (int)strcspn(folder, ":");

		if (snprintf(path, size, "%.*s/%s", length, folder, name) < (int)size && length > 0)
			found = is_found(path, &fd);
		folder += length;
	}
	if (fd < 0)
		path[0] = '\0';
	return fd;
}

/* What went wrong may quote the script, which is to tell the terminal nothing. */
static void keep_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void tell(int decision, char *text, bool rejects)
{
	switch (decision) {
	case STEPGUARD_DOUBT:
	case STEPGUARD_FOUND:
		slurm_spank_log("%s", text);
		if (!rejects || decision == STEPGUARD_DOUBT)
			return;
		slurm_spank_log("stepguard: nothing is submitted: change these lines, or end those that are right with: "
				"# stepguard: ignore[RULE]");
		exit(EXIT_PLACEMENT);
	case STEPGUARD_BROKEN:
		keep_printable(text);
		if (rejects)
			slurm_spank_log("stepguard: the job script was not checked: %s: see `" STEPGUARD_PREFIX
					"/bin/stepguard doctor`",
					text);
	}
}

static void check(const struct words *words, int script_at, bool rejects)
{
	static struct stepguard_answer answer;
	char path[4096];
	int fd = submission_open(words, script_at, path, sizeof(path));

	if (fd < 0)
		return;
	bool worth_it = mentions_in(fd, SCRIPT_MAX) == MENTIONS_BOTH;

	close(fd);
	if (!worth_it)
		return;
	struct stepguard_question question = {
		.program = STEPGUARD_SUBMISSION,
		.command_at = script_at,
		.words = words->bytes,
		.words_size = words->size,
		.script = path,
	};

	tell(ask_apart(&question, &answer, CHECK_MS), answer.text, rejects);
}

void submission_check(bool rejects)
{
	static int component_at; /* the index of the word before the options of this component */
	static bool done;
	struct words words;

	if (done)
		return;
	if (words_read(&words) == 0 && is_sbatch(words.word[0])) {
		int script_at = component_at + optind;

		if (script_at < words.count && strcmp(words.word[script_at], ":") == 0) {
			component_at = script_at;
		} else {
			done = true;
			if (script_at < words.count)
				check(&words, script_at, rejects);
		}
	}
	words_free(&words);
}
