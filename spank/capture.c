/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "capture.h"

#define SMALL_MAX (512 << 10) /* bytes of any message but that of a batch step */
#define EXIT_TEXT_MAX 48      /* "RANK STATUS TIME_NS" */

struct exit {
	uint32_t rank;
	int status; /* as wait(2) gives it */
	uint64_t time_ns;
};

static struct {
	bool on;
	bool silent; /* the agent once let the deadline pass: this process waits for it no more */
	const struct step *step;
	const struct agent_settings *settings;
	struct output *output; /* of a batch step */
	struct exit *exits;    /* of the first CAPTURE_TASKS_MAX tasks that ended */
	uint32_t exits_room;
	uint32_t exits_count; /* of all */
	uint32_t last_rank;
} capture;

static const char *restart_count(void)
{
	const char *seen = capture.output ? output_restart_count(capture.output) : "";

	return seen[0] ? seen : capture.step->restart_count;
}

static void begin_message(struct wire *wire, const char *kind, size_t body_max)
{
	const struct step *step = capture.step;
	const char *node = getenv("SLURMD_NODENAME"); /* slurmstepd's own environment */

	wire_begin(wire, kind, body_max);
	wire_add_text(wire, "node", node ? node : "");
	wire_add_times(wire);
	wire_add_number(wire, "job_id", step->job_id);
	if (step->step_id == SLURM_BATCH_SCRIPT)
		wire_add_text(wire, "step_id", "batch");
	else
		wire_add_number(wire, "step_id", step->step_id);
	wire_add_number(wire, "uid", step->uid);
	wire_add_number(wire, "gid", step->gid);
	if (restart_count()[0])
		wire_add_text(wire, "restart_count", restart_count());
	if (step->attempt[0])
		wire_add_text(wire, "attempt", step->attempt);
}

/* Not for the user's eyes: this level goes to slurmd's log alone. */
static void log_outcome(enum wire_outcome outcome, const char *kind, const char *why)
{
	if (outcome == WIRE_NOTED)
		slurm_verbose("stepguard: %s of job %u: %s", kind, (unsigned)capture.step->job_id, why);
	else if (outcome == WIRE_LOST)
		slurm_info("stepguard: %s of job %u is not recorded: %s", kind, (unsigned)capture.step->job_id, why);
}

static enum wire_outcome deliver(const struct wire *wire, bool as_root, char *why, size_t why_size)
{
	char reply[WIRE_REPLY_MAX];

	if (!capture.silent) {
		uint64_t before_ns = wire_clock_ns(CLOCK_MONOTONIC);
		enum wire_outcome outcome = wire_deliver(wire, capture.settings, as_root, reply, why, why_size);
		uint64_t taken_ms = (wire_clock_ns(CLOCK_MONOTONIC) - before_ns) / 1000000;

		capture.silent = outcome != WIRE_TAKEN && taken_ms >= capture.settings->deadline_ms;
		return outcome;
	}
	snprintf(why, why_size, "the agent was silent before");
	if (!as_root || !wire->bytes)
		return WIRE_LOST;
	const char *hindrance = note_leave(capture.settings->spool, wire->bytes, wire->size);

	if (hindrance)
		snprintf(why, why_size, "the agent was silent before: no note in %s either: %s", capture.settings->spool,
			 hindrance);
	return hindrance ? WIRE_LOST : WIRE_NOTED;
}

static void send_as_root(struct wire *wire, const char *kind)
{
	char why[512];

	log_outcome(deliver(wire, true, why, sizeof(why)), kind, why);
	wire_free(wire);
}

static bool is_installed(const struct agent_settings *settings)
{
	struct stat status;

	return lstat(settings->socket, &status) == 0 || lstat(settings->spool, &status) == 0;
}

void capture_begin(spank_t spank, const struct step *step, const struct agent_settings *settings)
{
	bool batch = step->step_id == SLURM_BATCH_SCRIPT;
	const char *kind = batch ? "batch" : "step_start";
	struct wire wire;

	if (!is_installed(settings))
		return;
	capture.on = true;
	capture.step = step;
	capture.settings = settings;
	capture.exits_room = step->local_tasks < CAPTURE_TASKS_MAX ? step->local_tasks : CAPTURE_TASKS_MAX;
	capture.exits = calloc(capture.exits_room + 1, sizeof(*capture.exits));
	if (batch)
		capture.output = output_share(stepd_variable(spank, "SLURM_RESTART_COUNT"));
	begin_message(&wire, kind, batch ? WIRE_BODY_MAX : SMALL_MAX);
	if (batch)
		capture_add_batch(&wire, spank);
	else
		capture_add_step(&wire, spank, step);
	send_as_root(&wire, kind);
}

void capture_task(spank_t spank)
{
	struct wire wire;
	char why[512];

	if (!capture.output)
		return;
	output_look(capture.output, stepd_variable(spank, "SLURM_RESTART_COUNT"));
	begin_message(&wire, "output", SMALL_MAX);
	output_add(capture.output, &wire);
	/* Else slurmstepd sends it at the end: the spool is not the user's. */
	if (deliver(&wire, false, why, sizeof(why)) == WIRE_TAKEN)
		output_mark_sent(capture.output);
	wire_free(&wire);
}

void capture_task_exit(spank_t spank)
{
	uint32_t rank = 0;
	int status = 0;

	if (!capture.on || spank_get_item(spank, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS)
		return;
	/* Asked once for each line of plugstack.conf that names the plugin. */
	if (capture.exits_count > 0 && capture.last_rank == rank)
		return;
	capture.last_rank = rank;
	if (capture.exits && capture.exits_count < capture.exits_room)
		capture.exits[capture.exits_count] = (struct exit){ rank, status, wire_clock_ns(CLOCK_REALTIME) };
	capture.exits_count++;
}

static void add_exits(struct wire *wire)
{
	uint32_t kept = capture.exits_count < capture.exits_room ? capture.exits_count : capture.exits_room;
	char *text = capture.exits ? malloc((size_t)kept * EXIT_TEXT_MAX + 1) : NULL;
	size_t size = 0;

	wire_add_number(wire, "exits_count", capture.exits_count);
	for (uint32_t i = 0; text && i < kept; i++) {
		const struct exit *exit = &capture.exits[i];

		size += (size_t)snprintf(text + size, EXIT_TEXT_MAX, "%u %d %llu", (unsigned)exit->rank, exit->status,
					 (unsigned long long)exit->time_ns) + 1;
	}
	wire_add(wire, "exits", text ? text : "", size);
	free(text);
}

void capture_end(void)
{
	struct wire wire;

	if (!capture.on)
		return;
	capture.on = false;
	if (capture.output && !output_is_sent(capture.output)) {
		begin_message(&wire, "output", SMALL_MAX);
		if (output_add(capture.output, &wire))
			send_as_root(&wire, "output");
		else
			wire_free(&wire);
	}
	begin_message(&wire, "step_end", SMALL_MAX);
	add_exits(&wire);
	send_as_root(&wire, "step_end");
}

void capture_finding(const char *code, const char *text, const char *variable, const char *value, const char *step_nodes)
{
	struct wire wire;

	if (!capture.on)
		return;
	begin_message(&wire, "finding", SMALL_MAX);
	wire_add_text(&wire, "code", code);
	wire_add_text(&wire, "text", text);
	wire_add_text(&wire, "variable", variable);
	wire_add(&wire, "value", value, strnlen(value, CAPTURE_LIST_MAX));
	wire_add(&wire, "step_node_list", step_nodes, strnlen(step_nodes, CAPTURE_LIST_MAX));
	send_as_root(&wire, "finding");
}
