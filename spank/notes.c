/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes for an agent that is not there. Nothing is trusted but directories that only the caller (root) can write.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

/* Those who write at the same time do not see one another: it may become a few more. */
#define NOTES_MAX 10000
#define NOTES_SIZE_MAX ((uint64_t)256 << 20)

static const char not_own[] = "not a directory of its own that nobody else can write";

/* Opens a directory, made where it is missing. Returns its descriptor, or -1 and *hindrance. */
static int open_own(int parent, const char *name, const char **hindrance)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(parent, name, flags);
	struct stat status;

	if (fd < 0 && errno == ENOENT && (mkdirat(parent, name, 0700) == 0 || errno == EEXIST))
		fd = openat(parent, name, flags);
	if (fd < 0) {
		*hindrance = errno == ENOTDIR || errno == ELOOP ? not_own : strerror(errno);
		return -1;
	}
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	*hindrance = not_own;
	close(fd);
	return -1;
}

static const char *check_room(int directory, size_t size)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	unsigned count = 0;
	uint64_t size_all = size;
	struct stat status;

	if (!listing) {
		const char *hindrance = strerror(errno);

		if (fd >= 0)
			close(fd);
		return hindrance;
	}
	for (struct dirent *entry; count < NOTES_MAX && size_all <= NOTES_SIZE_MAX && (entry = readdir(listing));) {
		if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		count++;
		size_all += (uint64_t)status.st_size;
	}
	closedir(listing);
	return count < NOTES_MAX && size_all <= NOTES_SIZE_MAX ? NULL : "as many notes as may be lie there already";
}

static bool write_all(int fd, const unsigned char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t written = write(fd, bytes, size);

		if (written < 0 && errno != EINTR)
			return false;
		if (written > 0) {
			bytes += written;
			size -= (size_t)written;
		}
	}
	return true;
}

static const char *write_note(int directory, const void *message, size_t size)
{
	char name[64], temporary[64];
	unsigned long long now_ns = wire_clock_ns(CLOCK_BOOTTIME);

	snprintf(name, sizeof(name), "%020llu.%d.note", now_ns, (int)getpid());
	snprintf(temporary, sizeof(temporary), "%020llu.%d.tmp", now_ns, (int)getpid());
	int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return strerror(errno);
	bool good = write_all(fd, message, size) && fsync(fd) == 0;

	if (good && renameat(directory, temporary, directory, name) == 0 && fsync(directory) == 0) {
		close(fd);
		return NULL;
	}
	const char *hindrance = strerror(errno);

	unlinkat(directory, temporary, 0);
	close(fd);
	return hindrance;
}

const char *note_leave(const char *spool, const void *message, size_t size)
{
	const char *hindrance = NULL;
	int top = open_own(AT_FDCWD, spool, &hindrance);
	int directory = top < 0 ? -1 : open_own(top, "notes", &hindrance);

	if (top >= 0)
		close(top);
	if (directory < 0)
		return hindrance;
	hindrance = check_room(directory, size);
	if (!hindrance)
		hindrance = write_note(directory, message, size);
	close(directory);
	return hindrance;
}
