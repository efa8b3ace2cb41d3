/* Codecs under test: kernels by hand, and schedules that compress gradients.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_CODED_H
#define FF_TEST_CODED_H

#include "ff/codec.h"
#include "scene.h"

/* A device of the backend, for kernels alone. */
struct coded_bench {
	const struct ff_backend *b;
	struct ff_device *dev;
	struct ff_stream *stream;
};
void coded_bench_open(struct coded_bench *t);
void coded_bench_close(struct coded_bench *t);

/* Encodes v + rest; `rest` becomes what is left, `said` what the message says. */
void coded_say(struct coded_bench *t, const struct ff_codec *c, int64_t n, const float *v,
		float *rest, float *said);
/* Numbers of very different sizes, some of them none at all; to be freed. */
float *coded_numbers(struct ff_random *r, int64_t n);

/* By sample alone, as random strategies seldom all-reduce; the same with parameters that are
 * updated on one device, or cut along an axis; random ones. */
enum { SUMMED, SERVED, CUT, RANDOM, KINDS };
/* Numbers `i` of a series: codecs and kinds in turn. */
void coded_scene(struct scene *s, uint32_t i, uint32_t max_devices, struct ff_random *r);
const struct ff_codec *coded_by(uint32_t i);
/* The schedule of `s` on its machine and its executor; NULL: nothing is compressed. */
void coded_open(struct rig *r, struct scene *s, const struct ff_codec *codec, int64_t bucket_bytes,
		const struct ff_executor_options *opt);

#endif
