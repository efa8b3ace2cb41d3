/* Models of devices: what kernels take by their class and shape, fitted to measurements.
 * docs/device-models.md has the formulas.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_MODEL_H
#define FF_DEVICE_MODEL_H

#include "ff/arena.h"
#include "ff/kernel_shape.h"
#include "ff/machine.h"

#define FF_MODEL_PARAMETERS 32 /* at most, of a class */
#define FF_MODEL_TYPES 2       /* float32, bfloat16 */

/* What is known of one class of kernels, in one type. */
struct ff_model_class {
	bool inferred, back_inferred; /* not measured on such a device: forward, gradients */
	double v[FF_MODEL_PARAMETERS];
};

struct ff_device_model {
	const char *name;
	double multiprocessors;
	double memory_bytes_per_s;
	double flops_per_s[FF_MODEL_TYPES];
	double tf32_flops_per_s; /* 0: there is no TF32 */
	double ampere_share; /* of its rate in 16 bits, what kernels of Ampere's instructions see */
	struct ff_model_class class[FF_KERNEL_CLASS_COUNT][FF_MODEL_TYPES];
};

/* Parses a model; same contract as ff_graph_parse. */
int ff_device_model_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_device_model *ret, struct ff_error *err);
/* The model of `kind`: the file that it names, or one of its own name, in the folder models beside
 * machines; of "P100" one of "P100-16GB", too.  *ret NULL: there is none. */
int ff_device_model_find(const struct ff_device_kind *kind, struct ff_arena *a,
		const struct ff_device_model **ret, struct ff_error *err);
int ff_device_model_load(const char *path, struct ff_arena *a, struct ff_device_model *ret,
		struct ff_error *err);

/* Microseconds, above 0 and finite whatever the shape; *inferred, where not NULL: whether that
 * rests on what was not measured on such a device. */
double ff_device_model_us(
		const struct ff_device_model *m, const struct ff_kernel_shape *s, bool *inferred);
/* What of a time rests on no measurement of such a device, and which classes (a bit each) that is.
 */
struct ff_inferred {
	double us;
	uint32_t classes;
};
/* `n` kernels, one behind the other. */
double ff_device_model_kernels_us(const struct ff_device_model *m, const struct ff_kernel_shape *s,
		uint32_t n, struct ff_inferred *inferred);
/* All kernels of a part. */
double ff_device_model_work_us(const struct ff_device_model *m, const struct ff_work *w,
		struct ff_inferred *inferred);
/* Of `bytes` that cross the memory bus. */
double ff_device_model_stream_us(const struct ff_device_model *m, double bytes);

#endif
