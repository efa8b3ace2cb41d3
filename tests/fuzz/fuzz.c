/* What targets share.  SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ff/dataset.h"
#include "ff/graph_file.h"

const char *ff_fuzz_file(const uint8_t *data, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return path;
}

void ff_fuzz_graph(const char *text, struct ff_arena *a, struct ff_graph *ret)
{
	struct ff_error err;

	if (ff_graph_parse("good", text, strlen(text), a, ret, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
}

void ff_fuzz_check(int code, const struct ff_error *err)
{
	if (code < 0 && (!err->text[0] || strchr(err->text, '\n')))
		abort();
}

static void read_batch(const struct ff_dataset *d, const struct ff_graph *g, bool train)
{
	struct ff_error err = {0};
	int64_t valid;

	if (!ff_dataset_steps(d, train))
		return;
	ff_fuzz_check(ff_dataset_valid(d, train, 0, &valid, &err), &err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];
		struct ff_region all = {.rank = v->rank};
		void *shard;

		if (!ff_node_is_source(g, i))
			continue;
		for (uint32_t k = 0; k < v->rank; k++)
			all.hi[k] = v->shape[k];
		shard = malloc((size_t)(ff_region_volume(&all) * ff_dtype_bytes(v->dtype)));
		if (shard)
			ff_fuzz_check(ff_dataset_fill(d, train, 0, i, &all, shard, &err), &err);
		free(shard);
	}
}

void ff_fuzz_data(const char *spec, const struct ff_graph *g)
{
	struct ff_dataset *d;
	struct ff_error err = {0};
	int code = ff_dataset_open(spec, g, 1, &d, &err);

	ff_fuzz_check(code, &err);
	if (code < 0)
		return;
	read_batch(d, g, true);
	read_batch(d, g, false);
	ff_dataset_close(d);
}
