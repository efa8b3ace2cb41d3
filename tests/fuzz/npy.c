/* NumPy's files: an array, and an archive as data.  SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>

#include "data/npy.h"

/* The corpus has archives for it. */
static const char net[] =
		"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"net\", \"nodes\": ["
		"{\"name\": \"x\", \"op\": \"input\", \"shape\": [2, 3]},"
		"{\"name\": \"y\", \"op\": \"input\", \"shape\": [2], \"dtype\": \"int32\","
		" \"classes\": 3},"
		"{\"name\": \"fc\", \"op\": \"linear\", \"in\": [\"x\"], \"out_features\": 3},"
		"{\"name\": \"loss\", \"op\": \"softmax_cross_entropy\", \"in\": [\"fc\", "
		"\"y\"]}]}";

static void read_array(const char *path)
{
	struct ff_store *store;
	struct ff_npy array;
	struct ff_error err = {0};
	int code = ff_store_open(path, &store, &err);

	ff_fuzz_check(code, &err);
	if (code < 0)
		return;
	ff_fuzz_check(ff_npy_read(store, &array, &err), &err);
	ff_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = ff_fuzz_file(data, size);
	struct ff_graph graph;
	struct ff_arena a;
	char spec[96];

	ff_arena_init(&a);
	read_array(path);
	ff_fuzz_graph(net, &a, &graph);
	snprintf(spec, sizeof(spec), "numpy:%s", path);
	ff_fuzz_data(spec, &graph);
	ff_arena_finish(&a);
	return 0;
}
