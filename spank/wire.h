/* SPDX-License-Identifier: Apache-2.0
 *
 * The one message format spoken to the agent, and its delivery within a deadline: to the agent's socket, or, where no
 * agent takes it, as a note in the spool. python/stepguard/records/wire.py reads the same:
 *
 *     message = "SGR1" u32(body_size) body,   body = field*,   field = u8(name_size) name u32(value_size) value
 *
 * Shared by the plugin and the hooks; nothing of Slurm in here, no locks, and signals and threads are left alone.
 */
#ifndef STEPGUARD_WIRE_H
#define STEPGUARD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_BODY_MAX (6u << 20)
#define WIRE_FIELDS_MAX 64
#define WIRE_REPLY_MAX 513 /* a line of 512 bytes, with a NUL in place of what follows it */

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

/* wire.c: a message in the making; whole and sendable after each call. What does not fit (or has no proper name, or one
 * that is there already) is left out, and the message `full`: it takes no more. So what matters most comes first. */
struct wire {
	unsigned char *bytes;
	size_t size, room;
	int field_count;
	bool full;
};

/* `body_max` bounds the allocation, of which only what is written becomes memory; at most WIRE_BODY_MAX. Without memory
 * the message takes nothing and is lost when delivered: callers need not look at the results. */
bool wire_begin(struct wire *wire, const char *kind, size_t body_max);
bool wire_add(struct wire *wire, const char *name, const void *value, size_t size);
bool wire_add_text(struct wire *wire, const char *name, const char *text);
bool wire_add_number(struct wire *wire, const char *name, uint64_t number);
/* time_ns, boottime_ns, boot_id. */
bool wire_add_times(struct wire *wire);

enum wire_long {
	WIRE_LONG_LEFT_OUT, /* an entry that does not fit is left out: it hides no others */
	WIRE_LONG_ENDS,     /* ... and all that follow it, where they would mean something else without it */
};

/* NAME: the entries of a list that NULL ends, each with its NUL, at most size_max bytes together; before it NAME_size,
 * what all have. `wanted` says which entries count; NULL for all. `list` may be NULL. */
bool wire_add_list(struct wire *wire, const char *name, char *const *list, bool (*wanted)(const char *entry),
		   size_t size_max, enum wire_long overlong);
void wire_free(struct wire *wire);

uint64_t wire_clock_ns(int clock);

enum wire_outcome {
	WIRE_TAKEN, /* the agent has it on disk */
	WIRE_NOTED, /* it is in the spool, for the agent to find */
	WIRE_LOST,  /* neither; `why` says why */
};

/* deliver.c: sends the message and waits for the answer, all within settings->deadline_ms. `reply` gets the agent's line
 * without its newline, "" where none came. `why` gets one line for a log, "" when the agent took the message.
 *
 * Without an agent (none there, not root's, no answer in time, no sense in it) a note is left if `may_note`, that is, if
 * the spool is the caller's; one that was refused would be refused again as a note. An agent that was only slow may
 * have the message too: the note is the same to the byte. */
enum wire_outcome wire_deliver(const struct wire *wire, const struct agent_settings *settings, bool may_note,
			       char reply[WIRE_REPLY_MAX], char *why, size_t why_size);

/* notes.c: leaves a message in SPOOL/notes, synced. Returns NULL, or what hindered it. The deadline does not hold here:
 * it takes as long as the spool's disk does for two syncs (so the spool must be local), and 10,000 notes to be counted. */
const char *note_leave(const char *spool, const void *message, size_t size);

#endif
