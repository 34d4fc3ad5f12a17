/* SPDX-License-Identifier: Apache-2.0
 *
 * Speaks to an agent as slurmstepd and the hooks do, with an alarm every 3 ms that restarts no system call.
 *
 *     wire_host deliver CONFIG MAY_NOTE BODY_MAX KIND [NAME VALUE COUNT]...
 *         each field is VALUE, COUNT times; "NAME list COUNT" and "NAME words COUNT" are the environment, at most COUNT
 *         bytes, without the long entries, or without those after a long one. Prints outcome, full, reply and why, a line each.
 *     wire_host settings FILE...
 *         prints what is read of each: socket, spool, deadline_ms, gate, repair_nodelist, a line each
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "wire.h"

extern char **environ;

static void on_alarm(int signal_number)
{
	(void)signal_number;
}

static void start_alarms(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval interval = { { 0, 3000 }, { 0, 3000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
}

static void add(struct wire *wire, const char *name, const char *value, size_t count)
{
	size_t length = strlen(value);
	char *bytes = malloc(length * count + 1);

	if (strcmp(value, "list") == 0 || strcmp(value, "words") == 0) {
		wire_add_list(wire, name, environ, NULL, count, value[0] == 'l' ? WIRE_LONG_LEFT_OUT : WIRE_LONG_ENDS);
	} else if (bytes) {
		for (size_t i = 0; i < count; i++)
			memcpy(bytes + i * length, value, length);
		wire_add(wire, name, bytes, length * count);
	}
	free(bytes);
}

static void deliver(int count, char **words)
{
	static const char *const outcomes[] = { "taken", "noted", "lost" };
	struct agent_settings settings;
	struct wire wire;
	char reply[WIRE_REPLY_MAX], why[300];

	agent_settings_read(&settings, words[0]);
	wire_begin(&wire, words[3], strtoul(words[2], NULL, 10));
	wire_add_times(&wire);
	for (int i = 4; i + 2 < count; i += 3)
		add(&wire, words[i], words[i + 1], strtoul(words[i + 2], NULL, 10));
	enum wire_outcome outcome = wire_deliver(&wire, &settings, words[1][0] == '1', reply, why, sizeof(why));

	printf("%s\n%d\n%s\n%s\n", outcomes[outcome], wire.full, reply, why);
	wire_free(&wire);
}

int main(int argc, char **argv)
{
	start_alarms();
	if (argc >= 6 && strcmp(argv[1], "deliver") == 0) {
		deliver(argc - 2, argv + 2);
		return 0;
	}
	for (int i = 2; i < argc; i++) {
		struct agent_settings settings;

		agent_settings_read(&settings, argv[i]);
		printf("%s\n%s\n%u\n%d\n%d\n", settings.socket, settings.spool, settings.deadline_ms,
		       settings.gate, settings.repair_nodelist);
	}
	return 0;
}
