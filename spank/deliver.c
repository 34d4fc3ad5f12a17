/* SPDX-License-Identifier: Apache-2.0
 *
 * One absolute deadline over connect, send and answer.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

struct line {
	char *text;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static void append(struct line *line, const char *format, ...)
{
	size_t length = strlen(line->text);
	va_list values;

	va_start(values, format);
	vsnprintf(line->text + length, line->size - length, format, values);
	va_end(values);
}

/* 0: the deadline is over, and errno ETIMEDOUT. */
static uint64_t left_ns(uint64_t deadline_ns)
{
	uint64_t now_ns = wire_clock_ns(CLOCK_MONOTONIC);

	errno = ETIMEDOUT;
	return now_ns < deadline_ns ? deadline_ns - now_ns : 0;
}

/* A connect that waits for room in the agent's backlog ends by the send timeout (socket(7)), with EAGAIN. */
static bool connect_within(int fd, const struct sockaddr_un *address, uint64_t deadline_ns)
{
	uint64_t left;

	while ((left = left_ns(deadline_ns)) > 0) {
		uint64_t left_us = left / 1000 + 1; /* 0 would be forever */
		struct timeval timeout = { .tv_sec = (time_t)(left_us / 1000000), .tv_usec = (long)(left_us % 1000000) };

		if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0)
			return false;
		if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
			return true;
		if (errno != EINTR && errno != EAGAIN)
			return false;
	}
	return false;
}

static bool wait_within(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd polled = { .fd = fd, .events = events };
	uint64_t left;

	while ((left = left_ns(deadline_ns)) > 0) {
		uint64_t left_ms = (left + 999999) / 1000000;
		int ready = poll(&polled, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);

		if (ready > 0)
			return true;
		if (ready < 0 && errno != EINTR)
			return false;
	}
	return false;
}

static bool send_within(int fd, const unsigned char *bytes, size_t size, uint64_t deadline_ns)
{
	while (size > 0) {
		ssize_t sent = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent >= 0) {
			bytes += sent;
			size -= (size_t)sent;
		} else if (errno == EPIPE || errno == ECONNRESET) {
			return true; /* it would hear no more, but may have said why */
		} else if (errno == EAGAIN ? !wait_within(fd, POLLOUT, deadline_ns) : errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* A whole line, without its newline and fit for a log. Where none came: false, `reply` is "" and errno says why. */
static bool receive_within(int fd, char reply[WIRE_REPLY_MAX], uint64_t deadline_ns)
{
	size_t size = 0;
	char *end = NULL;

	while (!end && size < WIRE_REPLY_MAX - 1) {
		ssize_t got = recv(fd, reply + size, WIRE_REPLY_MAX - 1 - size, MSG_DONTWAIT);

		if (got > 0) {
			end = memchr(reply + size, '\n', (size_t)got);
			size += (size_t)got;
		} else if (got == 0) {
			errno = EPROTO;
			break;
		} else if (errno == EAGAIN ? !wait_within(fd, POLLIN, deadline_ns) : errno != EINTR) {
			break;
		}
	}
	if (!end) {
		if (size == WIRE_REPLY_MAX - 1)
			errno = EMSGSIZE;
		reply[0] = '\0';
		return false;
	}
	*end = '\0';
	for (char *at = reply; at < end; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return true;
}

/* Anybody may have made a socket in a directory that is badly chosen; environments have secrets. */
static bool is_trusted(int fd, struct line *why)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid()))
		return true;
	append(why, "who listens there is not root but uid %u", (unsigned)peer.uid);
	return false;
}

static bool talk(int fd, const struct wire *wire, const struct agent_settings *settings, char reply[WIRE_REPLY_MAX],
		 struct line *why)
{
	uint64_t deadline_ns = wire_clock_ns(CLOCK_MONOTONIC) + settings->deadline_ms * (uint64_t)1000000;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, settings->socket, sizeof(address.sun_path));
	if (connect_within(fd, &address, deadline_ns)) {
		if (!is_trusted(fd, why))
			return false;
		if (send_within(fd, wire->bytes, wire->size, deadline_ns) && receive_within(fd, reply, deadline_ns))
			return true;
	}
	if (errno == ETIMEDOUT)
		append(why, "no answer within %u ms", settings->deadline_ms);
	else if (errno == EPROTO)
		append(why, "it hung up without an answer");
	else
		append(why, "%s", strerror(errno));
	return false;
}

enum answer { NO_ANSWER, ACCEPTED, REFUSED };

static enum answer ask_agent(const struct wire *wire, const struct agent_settings *settings, char reply[WIRE_REPLY_MAX],
			     struct line *why)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	append(why, "no agent at %s: ", settings->socket);
	if (fd < 0) {
		append(why, "%s", strerror(errno));
		return NO_ANSWER;
	}
	bool answered = talk(fd, wire, settings, reply, why);

	close(fd);
	if (!answered)
		return NO_ANSWER;
	if (strcmp(reply, "ok") == 0 || strncmp(reply, "fail ", 5) == 0)
		return ACCEPTED;
	if (strncmp(reply, "refused ", 8) == 0)
		return REFUSED;
	append(why, "no sense in what it answers: %.40s", reply);
	return NO_ANSWER;
}

enum wire_outcome wire_deliver(const struct wire *wire, const struct agent_settings *settings, bool may_note,
			       char reply[WIRE_REPLY_MAX], char *why, size_t why_size)
{
	struct line line = { .text = why, .size = why_size };

	reply[0] = why[0] = '\0';
	if (!wire->bytes) {
		append(&line, "no memory for a message");
		return WIRE_LOST;
	}
	enum answer answer = ask_agent(wire, settings, reply, &line);

	if (answer == ACCEPTED) {
		why[0] = '\0';
		return WIRE_TAKEN;
	}
	if (answer == REFUSED) {
		why[0] = '\0';
		append(&line, "the agent at %s: %s", settings->socket, reply);
		return WIRE_LOST;
	}
	if (!may_note)
		return WIRE_LOST;
	const char *hindrance = note_leave(settings->spool, wire->bytes, wire->size);

	if (hindrance)
		append(&line, ": no note in %s either: %s", settings->spool, hindrance);
	else
		append(&line, ": left a note in the spool");
	return hindrance ? WIRE_LOST : WIRE_NOTED;
}
