/* IDX files, packed or not: one of the four is the bytes, chosen by the first of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 96

static const char net[] =
		"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"net\", \"nodes\": ["
		"{\"name\": \"x\", \"op\": \"input\", \"shape\": [2, 1, 2, 3]},"
		"{\"name\": \"y\", \"op\": \"input\", \"shape\": [2], \"dtype\": \"int32\","
		" \"classes\": 3},"
		"{\"name\": \"flat\", \"op\": \"reshape\", \"in\": [\"x\"], \"shape\": [0, -1]},"
		"{\"name\": \"fc\", \"op\": \"linear\", \"in\": [\"flat\"], \"out_features\": 3},"
		"{\"name\": \"loss\", \"op\": \"softmax_cross_entropy\", \"in\": [\"fc\", "
		"\"y\"]}]}";

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
/* Two samples each. */
static const uint8_t good[2][28] = {{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 9, 8, 7, 6, 5,
						    4, 3, 2, 1, 0, 1, 2},
		{0, 0, 8, 1, 0, 0, 0, 2, 2, 1}};
static const size_t good_bytes[2] = {28, 10};
static char folder[64];

static void remove_folder(void)
{
	char name[NAME_BYTES];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
		unlink(name);
	}
	rmdir(folder);
}

static void make_folder(void)
{
	strcpy(folder, "/tmp/ff-fuzz-XXXXXX");
	if (!mkdtemp(folder))
		abort();
	atexit(remove_folder);
}

/* The file that is chosen leads to the bytes, the others are good. */
static void put_files(int chosen, const char *path)
{
	for (int i = 0; i < 4; i++) {
		char name[NAME_BYTES];
		FILE *f;

		snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
		unlink(name);
		if (i == chosen) {
			if (symlink(path, name) < 0)
				abort();
			continue;
		}
		f = fopen(name, "wb");
		if (!f || fwrite(good[i % 2], 1, good_bytes[i % 2], f) != good_bytes[i % 2])
			abort();
		fclose(f);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int was = -1; /* chosen the last time */
	struct ff_graph graph;
	struct ff_arena a;
	const char *path;
	char spec[NAME_BYTES];

	if (!size)
		return 0;
	if (was < 0)
		make_folder();
	path = ff_fuzz_file(data + 1, size - 1);
	if (was != data[0] % 4)
		put_files(was = data[0] % 4, path);
	ff_arena_init(&a);
	ff_fuzz_graph(net, &a, &graph);
	snprintf(spec, sizeof(spec), "idx:%s", folder);
	ff_fuzz_data(spec, &graph);
	ff_arena_finish(&a);
	return 0;
}
