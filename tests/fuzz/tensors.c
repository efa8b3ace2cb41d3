/* Safetensors.  SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdlib.h>

#include "ff/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ff_tensors file = {.fd = -1};
	struct ff_error err = {0};
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	a.limit = FF_FUZZ_MEMORY;
	code = ff_tensors_open(ff_fuzz_file(data, size), &a, &file, &err);
	ff_fuzz_check(code, &err);
	for (uint32_t i = 0; i < file.n && code == FF_OK; i++) {
		const struct ff_tensor *t = &file.tensor[i];
		float *whole = malloc((size_t)t->elements * sizeof(*whole) + 1);

		if (ff_tensors_find(&file, t->name) != t)
			abort();
		if (whole)
			ff_fuzz_check(ff_tensors_read(&file, t, whole, &err), &err);
		free(whole);
	}
	ff_tensors_close(&file);
	ff_arena_finish(&a);
	return 0;
}
