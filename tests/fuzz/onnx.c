/* ONNX models.  SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "ff/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ff_import_options opt = {
			.model = ff_fuzz_file(data, size), .batch = 2, .weights = "/dev/null"};
	struct ff_graph graph;
	struct ff_error err = {0};
	struct ff_arena a;

	ff_arena_init(&a);
	a.limit = FF_FUZZ_MEMORY;
	ff_fuzz_check(ff_import_onnx(&opt, &a, &graph, &err), &err);
	ff_arena_finish(&a);
	return 0;
}
