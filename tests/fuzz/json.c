/* JSON, and what is read from it: graphs, machines, strategies, costs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include "ff/costs.h"
#include "ff/graph_file.h"
#include "ff/machine.h"
#include "ff/strategy_file.h"

/* Strategies in the corpus are for this graph; they have its hash. */
static const char tiny[] =
		"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"tiny\", \"nodes\": ["
		"{\"name\": \"data\", \"op\": \"input\", \"shape\": [8, 4]},"
		"{\"name\": \"labels\", \"op\": \"input\", \"shape\": [8], \"dtype\": \"int32\","
		" \"classes\": 3},"
		"{\"name\": \"fc\", \"op\": \"linear\", \"in\": [\"data\"], \"out_features\": 3},"
		"{\"name\": \"loss\", \"op\": \"softmax_cross_entropy\", \"in\": [\"fc\", "
		"\"labels\"]}]}";

static void read_texts(const char *text, size_t size, struct ff_arena *a)
{
	const struct ff_json *root;
	struct ff_machine machine;
	struct ff_graph graph;
	struct ff_error err = {0};

	ff_fuzz_check(ff_json_parse("text", text, size, a, &root, &err), &err);
	ff_fuzz_check(ff_graph_parse("text", text, size, a, &graph, &err), &err);
	ff_fuzz_check(ff_machine_parse("text", text, size, a, &machine, &err), &err);
}

static void read_files(const char *path, struct ff_arena *a)
{
	struct ff_strategy_info info;
	struct ff_strategy strategy;
	struct ff_graph graph;
	struct ff_costs *costs = NULL;
	struct ff_error err = {0};

	ff_fuzz_graph(tiny, a, &graph);
	ff_fuzz_check(ff_strategy_load_rewritten(path, &graph, 64, a, &strategy, &info, &err),
			&err);
	ff_fuzz_check(ff_costs_load(path, &costs, &err), &err);
	ff_costs_destroy(costs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ff_arena a;

	ff_arena_init(&a);
	a.limit = FF_FUZZ_MEMORY;
	read_texts((const char *)data, size, &a);
	read_files(ff_fuzz_file(data, size), &a);
	ff_arena_finish(&a);
	return 0;
}
