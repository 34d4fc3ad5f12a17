/* SPDX-License-Identifier: Apache-2.0
 *
 * The one message format spoken to the agent, and its delivery within a deadline: to the agent's socket, or, where no
 * agent takes it, as a note in the spool. python/stepguard/records/wire.py reads the same:
 *
 *     message = "SGR1" u32(body_size) body,   body = field*,   field = u8(name_size) name u32(value_size) value
 */
#ifndef STEPGUARD_WIRE_H
#define STEPGUARD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_BODY_MAX (6u << 20)
#define WIRE_FIELDS_MAX 64
#define WIRE_REPLY_MAX 512

/* agent_settings.c: what C reads of stepguard.toml. */
struct agent_settings {
	char socket[108]; /* as long as a socket's path can be (unix(7)) */
	char spool[256];
	unsigned deadline_ms;
	bool gate;
	bool repair_nodelist;
};

/* Defaults, then what the file says under [agent]; what is not understood keeps its default. `path` may be NULL: the
 * default place. Never fails. */
void agent_settings_read(struct agent_settings *settings, const char *path);

/* A message in the making; all zero before the first call. Once a field did not fit it takes no more, and is `full`. */
struct wire {
	unsigned char *bytes; /* with room for the header */
	size_t size, room;
	int field_count;
	bool full;
};

/* `body_max` bounds the allocation, of which only what is written becomes memory; at most WIRE_BODY_MAX. */
bool wire_begin(struct wire *wire, const char *kind, size_t body_max);
bool wire_add(struct wire *wire, const char *name, const void *value, size_t size);
bool wire_add_text(struct wire *wire, const char *name, const char *text);
bool wire_add_number(struct wire *wire, const char *name, uint64_t number);
/* time_ns, boottime_ns, boot_id. */
bool wire_add_times(struct wire *wire);
void wire_free(struct wire *wire);

enum wire_outcome {
	WIRE_TAKEN,   /* the agent has it on disk */
	WIRE_NOTED,   /* it is in the spool, for the agent to find */
	WIRE_LOST,    /* neither; `why` says why */
};

/* Sends the message and waits for the answer, all within settings->deadline_ms. `reply` gets the agent's line without
 * its newline, "" where none came. Without an agent a note is left if `may_note` (the spool is root's). `why` gets one
 * line for a log whenever the agent did not take it. */
enum wire_outcome wire_deliver(struct wire *wire, const struct agent_settings *settings, bool may_note,
			       char reply[WIRE_REPLY_MAX], char *why, size_t why_size);

#endif
