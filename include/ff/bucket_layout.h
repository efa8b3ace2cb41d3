/* Buckets in bytes: offsets of their arrays, memory and traffic.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKET_LAYOUT_H
#define FF_BUCKET_LAYOUT_H

#include "ff/bucket.h"

/* Float32 bytes of a run, of a flat bucket that holds `bytes` in `runs` runs.  The bucket is padded
 * to `runs` times as much. */
static inline int64_t ff_bucket_run_bytes(enum ff_dtype type, int64_t bytes, uint32_t runs)
{
	return ff_optimizer_align(type, (bytes / FF_F32_BYTES + runs - 1) / runs);
}

/* Offsets of a device's arrays of a bucket, in bytes from the first, the weights that it updates.
 */
struct ff_bucket_layout {
	int64_t run; /* float32 bytes that the device updates: the whole bucket, unless flat */
	int64_t gradients; /* of the whole bucket; scattered: of the run */
	int64_t states;    /* of the run, one array after the other */
	int64_t readers; /* weights in the operators' type, of the whole bucket; dropped: of the run
			  */
	int64_t lists;   /* rows of sparse gradients */
	int64_t end;
};
/* How much of a bucket a device keeps throughout the step, optimizer states apart. */
struct ff_bucket_extent {
	int64_t run, weights, gradients; /* float32 bytes */
	int64_t lists;                   /* of sparse gradients, bytes */
};
static inline struct ff_bucket_extent ff_bucket_extent(int64_t bytes, uint32_t runs, bool scattered,
		bool dropped, const struct ff_sparse *sparse)
{
	int64_t run = bytes / runs;

	return (struct ff_bucket_extent){
			run, dropped ? run : bytes, scattered ? run : bytes, sparse->list_bytes};
}
/* `type`: of the weights as operators read them. */
static inline struct ff_bucket_layout ff_bucket_layout(
		const struct ff_optimizer *o, enum ff_dtype type, struct ff_bucket_extent x)
{
	struct ff_bucket_layout l = {.run = x.run};

	/* float32 weights are read where they are updated */
	l.gradients = type == FF_F32 ? x.weights : x.run;
	l.states = l.gradients + x.gradients;
	l.end = l.states + o->states * x.run;
	if (type != FF_F32) {
		l.readers = l.end;
		l.end += x.weights / FF_F32_BYTES * ff_dtype_bytes(type);
	}
	l.lists = l.end;
	l.end += x.lists;
	return l;
}
static inline struct ff_bucket_layout ff_bucket_arrays(
		const struct ff_bucket *b, const struct ff_optimizer *o, enum ff_dtype type)
{
	return ff_bucket_layout(o, type,
			ff_bucket_extent(b->bytes, b->runs, b->scattered, b->dropped, &b->sparse));
}
/* Float32 bytes of a run that an update by `o` touches. */
static inline int64_t ff_bucket_updated_bytes(
		const struct ff_optimizer *o, int64_t run, const struct ff_sparse *sparse)
{
	return run - (o->sparse ? sparse->unread_bytes : 0);
}
/* Offset of the first array of delayed gradients. */
static inline int64_t ff_bucket_waiting(
		const struct ff_bucket *b, const struct ff_optimizer *o, enum ff_dtype type)
{
	return ff_bucket_arrays(b, o, type).end + (b->codec ? b->bytes : 0);
}
/* Bytes that the bucket takes on each of its devices. */
static inline int64_t ff_bucket_memory(
		const struct ff_bucket *b, const struct ff_optimizer *o, enum ff_dtype type)
{
	return ff_bucket_waiting(b, o, type) + b->delay * b->bytes;
}

/* Bytes that all devices together send to sum its gradients: within groups, or (`across`) between
 * them. */
static inline int64_t ff_bucket_sent_bytes(const struct ff_bucket *b, bool across)
{
	int64_t bytes = b->codec ? ff_codec_bytes(b->codec, b->bytes / FF_F32_BYTES) : b->bytes;
	int64_t groups = ff_bucket_groups(b);

	return (across ? 2 * (groups - 1) : b->n_devices - groups) * bytes;
}
/* Bytes that all devices together send in the all-gather of a flat bucket. */
static inline int64_t ff_bucket_gathered_bytes(const struct ff_bucket *b, enum ff_dtype type)
{
	return (int64_t)(b->n_devices - ff_bucket_groups(b)) *
	       (b->bytes / FF_F32_BYTES * ff_dtype_bytes(type));
}

#endif
