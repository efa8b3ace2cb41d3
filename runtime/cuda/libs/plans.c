/* Plans on disk: a file a problem, in a folder for all that a choice depends on beside it.  Each
 * appears whole, so that any number of processes may write at once; who comes last wins, and all
 * of them wrote the same.  A file says what it is of and ends in a sum: one that is damaged, or
 * another's, is as good as none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "describe.h"
#include "ff/cli.h"
#include "ff/file.h"
#include "ff/hash.h"

#define FORMAT "ffsoap plan 1"
#define FILE_TEXT (3 * FF_PLANS_TEXT)

struct ff_plans {
	char folder[PATH_MAX]; /* "": nothing is kept */
	char device[512];      /* what choices depend on beside the problem */
};

/* ---- where ---- */

/* The folder that the user means; false: none. */
static bool find_cache(char path[PATH_MAX])
{
	const char *own = getenv("FF_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	int n = 0;

	if (own)
		n = snprintf(path, PATH_MAX, "%s", own);
	else if (xdg && *xdg == '/') /* others are to be ignored, as its specification says */
		n = snprintf(path, PATH_MAX, "%s/ffsoap", xdg);
	else if (home && *home)
		n = snprintf(path, PATH_MAX, "%s/.cache/ffsoap", home);
	return n > 0 && n < PATH_MAX;
}

static void describe(struct ff_device *dev, char *text, size_t size)
{
	struct ff_device_info info = {0};
	struct cudaDeviceProp p = {0};

	ff_cuda_describe(dev, &info);
	cudaGetDeviceProperties(&p, dev->ordinal);
	snprintf(text, size, "%s, compute capability %d.%d, %d multiprocessors, %s, driver %s",
			info.processor, p.major, p.minor, p.multiProcessorCount, info.kernels,
			info.driver);
}

static struct ff_plans *plans_of(struct ff_device *dev)
{
	struct ff_plans *p = dev->plans;
	char cache[PATH_MAX];
	int n;

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	dev->plans = p;
	describe(dev, p->device, sizeof(p->device));
	if (!find_cache(cache))
		return p;
	n = snprintf(p->folder, sizeof(p->folder), "%s/plans-%016llx", cache,
			(unsigned long long)ff_fnv1a(p->device, strlen(p->device)));
	if (n >= PATH_MAX)
		p->folder[0] = '\0';
	return p;
}

int ff_plans_tune(struct ff_device *dev, bool *ret, struct ff_error *err)
{
	const char *word = getenv(FF_TUNING_PROCESS);
	bool tunes = word && strtoll(word, NULL, 10) == (long long)getpid();
	int code = ff_cli_switch("FF_CUDA_TUNE", &tunes, err);
	const struct ff_plans *p = code < 0 ? NULL : plans_of(dev);

	*ret = tunes && p && p->folder[0];
	return code;
}

void ff_plans_close(struct ff_plans *p)
{
	free(p);
}

static bool find_path(const struct ff_plans *p, const char *problem, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%016llx", p->folder,
			(unsigned long long)ff_fnv1a(problem, strlen(problem)));

	return n < PATH_MAX;
}

/* All folders on the way, as private as XDG's specification wants those that are missing. */
static void make_folders(const char *folder)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", folder);
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	mkdir(path, 0700);
}

/* ---- what is in a file ---- */

/* Its bytes; 0 where that does not fit. */
static size_t fill_head(const struct ff_plans *p, const char *problem, char text[FILE_TEXT])
{
	int n = snprintf(text, FILE_TEXT, FORMAT "\n%s\n%s\n", p->device, problem);

	return n < FILE_TEXT ? (size_t)n : 0;
}

/* Behind `n` bytes. */
static size_t add_sum(char text[FILE_TEXT], size_t n)
{
	int more = snprintf(text + n, FILE_TEXT - n, "%016llx\n",
			(unsigned long long)ff_fnv1a(text, n));

	return n + (size_t)more < FILE_TEXT ? n + (size_t)more : 0;
}

static size_t read_text(const char *path, char text[FILE_TEXT])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 1;

	if (fd < 0)
		return 0;
	while (got > 0 && n < FILE_TEXT - 1) {
		got = read(fd, text + n, FILE_TEXT - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	text[n] = '\0';
	return n;
}

bool ff_plans_find(struct ff_device *dev, const char *problem, char choice[FF_PLANS_TEXT])
{
	const struct ff_plans *p = plans_of(dev);
	char path[PATH_MAX], text[FILE_TEXT], whole[FILE_TEXT];
	size_t n, head, line;

	if (!p || !p->folder[0] || !find_path(p, problem, path))
		return false;
	n = read_text(path, text);
	head = fill_head(p, problem, whole);
	if (!head || n <= head || memcmp(text, whole, head) != 0)
		return false;
	line = strcspn(text + head, "\n");
	if (line >= FF_PLANS_TEXT || head + line == n)
		return false;
	memcpy(whole, text, head + line + 1);
	if (add_sum(whole, head + line + 1) != n || memcmp(whole, text, n) != 0)
		return false;
	snprintf(choice, FF_PLANS_TEXT, "%.*s", (int)line, text + head);
	return true;
}

void ff_plans_keep(struct ff_device *dev, const char *problem, const char *choice)
{
	const struct ff_plans *p = plans_of(dev);
	char path[PATH_MAX], text[FILE_TEXT];
	struct ff_file f = {.fd = -1};
	struct ff_error why;
	size_t n;
	int more;

	if (!p || !p->folder[0] || !find_path(p, problem, path))
		return;
	n = fill_head(p, problem, text);
	more = snprintf(text + n, sizeof(text) - n, "%s\n", choice);
	if (!n || n + (size_t)more >= sizeof(text))
		return;
	n = add_sum(text, n + (size_t)more);
	make_folders(p->folder);
	if (n && ff_file_open(path, &f, &why) == FF_OK && ff_file_write(&f, text, n, &why) == FF_OK)
		ff_file_commit(&f, &why);
	ff_file_drop(&f);
}

/* ---- bytes as text ---- */

bool ff_plans_print(char text[FF_PLANS_TEXT], const void *bytes, size_t n)
{
	const unsigned char *b = bytes;
	size_t at = strlen(text);

	if (at + 2 * n >= FF_PLANS_TEXT)
		return false;
	for (size_t i = 0; i < n; i++)
		snprintf(text + at + 2 * i, 3, "%02x", b[i]);
	return true;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ff_plans_scan(const char *text, void *bytes, size_t n)
{
	unsigned char *b = bytes;

	if (strlen(text) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		b[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}
