/* Runs over elements that arrays share (kernels/loops.h), on CPUs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_LOOPS_H
#define FF_CPU_LOOPS_H

#include "kernels/binary.h"
#include "kernels/loops.h"

/* `n` neighbouring float32 of each side; one that is not there is another one. */
typedef void (*ff_run)(const float *x, const float *y, const float *z, float *out, int64_t n);

struct ff_cpu_loops {
	struct ff_loops loops;
	ff_run run;
	enum ff_dtype type, sink; /* of what is read and written */
	bool largest;             /* of what shares an element; else their sum */
	float scale;              /* of what is written; 1 of the largest */
};

/* The run that is a part of a function of two elements. */
ff_run ff_cpu_binary(enum ff_binary f, enum ff_binary_part part);
/* Writes every element of `sink` from those of `read` that are its own. */
void ff_cpu_loops(const struct ff_cpu_loops *l, const void *const read[FF_LOOP_READ], void *sink);

/* `n` elements from `at` on, `stride` apart, as float32 one behind the other: as they are, or in
 * `buffer`; NULL where there is no array. */
const float *ff_cpu_take(enum ff_dtype type, const void *array, int64_t at, int64_t stride,
		float *buffer, int64_t n);
/* The other way round, next to each other. */
void ff_cpu_put(enum ff_dtype type, void *array, int64_t at, const float *x, int64_t n);

#endif
