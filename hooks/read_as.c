/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the head and the tail of a job's output file with the rights of its owner, for the agent, which is root:
 *
 *     read_as UID GID HEAD_BYTES TAIL_BYTES PATH >NEW_FILE
 *
 * NEW_FILE gets a line of LINE_SIZE bytes, a JSON object filled up with blanks, then the head, then the tail. They do not
 * overlap; a file no larger than both is there as a whole. The line is written last: without it, all is void.
 *
 *     what        regular, or why there is nothing to read: fifo chr blk directory link socket absent unreadable
 *     errno       what went wrong, ENOENT; "" for nothing
 *     size_bytes dev ino nlink mtime_ns   of the file when it was opened; 0 when it could not be looked at
 *     head_bytes tail_bytes   what is there; less than asked for when the file is cut short meanwhile
 *
 * With 0 for both it only looks. A last component that is a link is not followed; for those before it the owner's
 * rights are the bound. The file system may hang: the caller bounds the time, and the owner may stop or kill us.
 *
 * Exits with 0 when the line is written, 2 for wrong arguments, 3 when rights could not be given up or NEW_FILE not written.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_SIZE 512
#define GROUPS_MAX 65536
#define SIZE_MAX_BYTES ((uint64_t)1 << 40)

enum { EXIT_USAGE = 2, EXIT_FAULT = 3 };

struct report {
	const char *what;
	int error;
	struct stat status;
	uint64_t head_bytes, tail_bytes;
};

static void fail(int exit_status, const char *what)
{
	fprintf(stderr, "stepguard: read_as: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
	exit(exit_status);
}

static uint64_t read_number(const char *text, uint64_t max)
{
	uint64_t number = 0;

	errno = 0;
	if (*text == '\0' || strlen(text) > 15 || text[strspn(text, "0123456789")] != '\0')
		fail(EXIT_USAGE, "a number is needed");
	for (; *text; text++)
		number = number * 10 + (uint64_t)(*text - '0');
	if (number > max)
		fail(EXIT_USAGE, "too large a number");
	return number;
}

/* The groups that the owner has besides; one without an entry, or with too many, has only that of the job. */
static void take_groups(uid_t uid, gid_t gid)
{
	struct passwd *owner = getpwuid(uid);
	int count = GROUPS_MAX;
	gid_t *groups = calloc(GROUPS_MAX, sizeof(*groups));

	if (!groups)
		fail(EXIT_FAULT, "no memory");
	if (!owner || getgrouplist(owner->pw_name, gid, groups, &count) < 0) {
		count = 1;
		groups[0] = gid;
	}
	if (setgroups((size_t)count, groups) != 0)
		fail(EXIT_FAULT, "cannot give up root's groups");
	free(groups);
}

/* Not to be taken back, and out of the owner's debugger; what root opened for us grows no more than it should. */
static void become(uid_t uid, gid_t gid, uint64_t size_max)
{
	const struct rlimit none = { 0, 0 }, size = { size_max, size_max };
	uid_t uids[3];
	gid_t gids[3];

	take_groups(uid, gid);
	if (setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &size) != 0)
		fail(EXIT_FAULT, "cannot set limits");
	if (setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		fail(EXIT_FAULT, "cannot give up root's rights");
	errno = 0;
	if (getresuid(&uids[0], &uids[1], &uids[2]) != 0 || getresgid(&gids[0], &gids[1], &gids[2]) != 0)
		fail(EXIT_FAULT, "cannot see whose rights are left");
	for (int i = 0; i < 3; i++)
		if (uids[i] != uid || gids[i] != gid)
			fail(EXIT_FAULT, "some of root's rights are left");
	if (uid != 0 && (setuid(0) == 0 || seteuid(0) == 0))
		fail(EXIT_FAULT, "root's rights can be taken back");
}

static const char *kind_of(mode_t mode)
{
	return S_ISREG(mode)  ? "regular" :
	       S_ISFIFO(mode) ? "fifo" :
	       S_ISCHR(mode)  ? "chr" :
	       S_ISBLK(mode)  ? "blk" :
	       S_ISDIR(mode)  ? "directory" :
	       S_ISLNK(mode)  ? "link" :
				"socket";
}

static int refused(struct report *report, int error)
{
	report->error = error;
	report->what = error == ENOENT || error == ENOTDIR ? "absent" : "unreadable";
	return -1;
}

/* Returns a descriptor to read from, or -1. Only what is regular is opened at all: a device may act, a FIFO's writer
 * wake. O_NONBLOCK is for what takes its place meanwhile, and for a lease. */
static int open_regular(struct report *report, const char *path, bool look_only)
{
	if (lstat(path, &report->status) != 0) {
		memset(&report->status, 0, sizeof(report->status));
		return refused(report, errno);
	}
	report->what = kind_of(report->status.st_mode);
	if (look_only || !S_ISREG(report->status.st_mode))
		return -1;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return refused(report, errno);
	if (fstat(fd, &report->status) != 0)
		refused(report, errno);
	else
		report->what = kind_of(report->status.st_mode);
	if (strcmp(report->what, "regular") == 0)
		return fd;
	close(fd);
	return -1;
}

/* Copies `size` bytes from `from` of the file to `to` of stdout. Returns how many there were. */
static uint64_t copy(struct report *report, int fd, uint64_t from, uint64_t size, uint64_t to)
{
	static char bytes[1 << 16];
	uint64_t done = 0;

	while (done < size) {
		size_t piece = size - done < sizeof(bytes) ? (size_t)(size - done) : sizeof(bytes);
		ssize_t got = pread(fd, bytes, piece, (off_t)(from + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			report->error = errno;
		if (got <= 0)
			break;
		for (ssize_t put = 0, written; put < got; put += written) {
			written = pwrite(STDOUT_FILENO, bytes + put, (size_t)(got - put), (off_t)(to + done) + put);
			if (written < 0 && errno != EINTR)
				fail(EXIT_FAULT, "cannot write");
			if (written < 0)
				written = 0;
		}
		done += (uint64_t)got;
	}
	return done;
}

static const char *name_of(int error)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{ 0, "" }, { EACCES, "EACCES" }, { EAGAIN, "EAGAIN" }, { EIO, "EIO" }, { ELOOP, "ELOOP" },
		{ ENAMETOOLONG, "ENAMETOOLONG" }, { ENOENT, "ENOENT" }, { ENOTCONN, "ENOTCONN" }, { ENOTDIR, "ENOTDIR" },
		{ EPERM, "EPERM" }, { ESTALE, "ESTALE" }, { ETIMEDOUT, "ETIMEDOUT" },
	};
	static char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].number == error)
			return names[i].name;
	snprintf(number, sizeof(number), "E%d", error);
	return number;
}

static void write_line(const struct report *report)
{
	const struct stat *status = &report->status;
	long long mtime_ns = (long long)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
	char line[LINE_SIZE + 1];
	int length = snprintf(line, sizeof(line),
			      "{\"what\":\"%s\",\"errno\":\"%s\",\"size_bytes\":%llu,\"dev\":%llu,\"ino\":%llu,"
			      "\"nlink\":%llu,\"mtime_ns\":%lld,\"head_bytes\":%llu,\"tail_bytes\":%llu}",
			      report->what, name_of(report->error), (unsigned long long)status->st_size,
			      (unsigned long long)status->st_dev, (unsigned long long)status->st_ino,
			      (unsigned long long)status->st_nlink, mtime_ns, (unsigned long long)report->head_bytes,
			      (unsigned long long)report->tail_bytes);

	if (length < 0 || length >= LINE_SIZE)
		fail(EXIT_FAULT, "too long a line");
	memset(line + length, ' ', (size_t)(LINE_SIZE - length));
	line[LINE_SIZE - 1] = '\n';
	if (pwrite(STDOUT_FILENO, line, LINE_SIZE, 0) != LINE_SIZE)
		fail(EXIT_FAULT, "cannot write");
}

int main(int argc, char **argv)
{
	struct report report = { .what = "unreadable" };

	errno = 0;
	if (argc != 6 || argv[5][0] != '/')
		fail(EXIT_USAGE, "usage: read_as UID GID HEAD_BYTES TAIL_BYTES ABSOLUTE_PATH");
	uid_t uid = (uid_t)read_number(argv[1], UINT32_MAX - 1);
	gid_t gid = (gid_t)read_number(argv[2], UINT32_MAX - 1);
	uint64_t head = read_number(argv[3], SIZE_MAX_BYTES), tail = read_number(argv[4], SIZE_MAX_BYTES);

	become(uid, gid, LINE_SIZE + head + tail);
	int fd = open_regular(&report, argv[5], head == 0 && tail == 0);

	if (fd >= 0) {
		uint64_t size = (uint64_t)report.status.st_size;

		head = head < size ? head : size;
		tail = tail < size - head ? tail : size - head;
		report.head_bytes = copy(&report, fd, 0, head, LINE_SIZE);
		if (report.head_bytes == head)
			report.tail_bytes = copy(&report, fd, size - tail, tail, LINE_SIZE + head);
	}
	write_line(&report);
	return 0;
}
