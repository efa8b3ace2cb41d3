/* What every system tells of a computer.  SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number alone in a file; 0: there is none ("max"). */
static int64_t read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long long n = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%lld", &n) != 1 || n < 0)
		n = 0;
	fclose(f);
	return n;
}

static int64_t least(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* The least limit in the folder of `group` and those above, up to `top`, both below `root`. */
static int64_t climb(const char *root, const char *top, const char *group, const char *file)
{
	char path[PATH_MAX];
	size_t fixed;
	int64_t found = 0;
	int n = snprintf(path, sizeof(path) - 64, "%s/sys/fs/cgroup%s%s", root, top, group);

	if (n < 0 || (size_t)n >= sizeof(path) - 64)
		return 0;
	fixed = (size_t)n - strlen(group);
	for (;;) {
		size_t end = strlen(path);

		snprintf(path + end, sizeof(path) - end, "/%s", file);
		found = least(found, read_number(path));
		path[end] = '\0';
		while (end > fixed && path[end - 1] != '/')
			end--;
		if (end <= fixed)
			return found;
		path[end - 1] = '\0';
	}
}

/* One line of /proc/self/cgroup: number:controllers:group. */
static int64_t limit_of(const char *root, char *line)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return 0;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	if (!controllers[1])
		return climb(root, "", group, "memory.max");
	return strstr(controllers, "memory")
			       ? climb(root, "/memory", group, "memory.limit_in_bytes")
			       : 0;
}

int64_t ff_host_limit(const char *root)
{
	char line[PATH_MAX];
	int64_t found = 0;
	FILE *f;

	snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	f = fopen(line, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		found = least(found, limit_of(root, line));
	fclose(f);
	return found;
}

void ff_host_init(struct ff_host *h)
{
	int64_t limit = ff_host_limit("");

	memset(h, 0, sizeof(*h));
	gethostname(h->name, sizeof(h->name) - 1);
	h->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	/* where there is no limit the first kind of groups has one beyond any memory */
	h->limit_bytes = limit < h->memory_bytes ? limit : 0;
}

int64_t ff_seat_cache_bytes(const struct ff_seat *s)
{
	const struct ff_host_domain *last_domain = NULL;
	uint32_t core = 0, last = 0, found = 0;
	int64_t bytes = 0;

	for (uint32_t i = 0; i < s->host.domains; i++) {
		const struct ff_host_domain *d = &s->host.domain[i];

		for (uint32_t k = 0; k < d->cores && d->caches; k++) {
			uint32_t cache = (uint32_t)((uint64_t)k * d->caches / d->cores);

			if (!ff_seat_has(s, core + k) || found == s->threads ||
					(last_domain == d && last == cache))
				continue;
			bytes += d->cache_bytes;
			last_domain = d;
			last = cache;
			found++;
		}
		core += d->cores;
	}
	return bytes;
}
