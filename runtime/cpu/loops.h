/* Runs over elements that arrays share (../loops.h), on CPUs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_LOOPS_H
#define FF_CPU_LOOPS_H

#include "../loops.h"

/* `n` neighbouring float32 of each side; one that is not there is another one. */
typedef void (*ff_run)(const float *x, const float *y, const float *z, float *out, int64_t n);

struct ff_cpu_loops {
	struct ff_loops loops;
	ff_run run;
	enum ff_dtype type, sink; /* of what is read and written */
	bool largest;             /* of what shares an element; else their sum */
	float scale;              /* of a sum */
};

/* Writes every element of `sink` from those of `read` that are its own. */
void ff_cpu_loops(const struct ff_cpu_loops *l, const void *const read[FF_LOOP_READ], void *sink);

#endif
