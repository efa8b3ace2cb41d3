/* What a backend has kernels for: one work, or several by one kernel.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_KERNEL_SLOTS_H
#define FF_KERNEL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_device; /* of each backend its own, as streams and kernels are */
struct ff_stream;
struct ff_kernel;
struct ff_kernel_io; /* ff/posting.h */
struct ff_work;      /* ff/work.h */

/* Several works by one kernel. */
enum ff_fuse {
	FF_FUSE_KEEPS = 1, /* what lies between the last two is kept, for who reads it later */
	FF_FUSE_OVER = 2,  /* what it writes may lie where something of the same size does that it
			    * reads, element by element */
	FF_FUSE_LATE = 4,  /* backward: or in part, so that nothing is written to din before all of
			    * the first one's has been read; dout[0] has room as if it were kept */
};
#define FF_FUSE_MOST 3 /* works */

struct ff_kernel_slots {
	/* Prepares a kernel for `w` (copied as needed). */
	int (*open)(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
			struct ff_error *err);
	/* Optional (may be NULL): a kernel for `n` works in their order, 2 to FF_FUSE_MOST, `how`
	 * by enum ff_fuse.  *ret stays where there is none.
	 * Forward each work is the only reader of what the one before writes.  The kernel reads
	 * the first one's inputs, then the further ones of the others.  It writes the last one's
	 * output to out[0], which may lie exactly where one of these further inputs does.  With
	 * FF_FUSE_KEEPS it writes what lies between to the output behind the first one's.
	 * Backward each begins with a gradient that the one before ends with: that of an input of
	 * that one, and of its own only output.
	 * If the last one has one input, there are two works.  The kernel reads the first one's
	 * inputs, then the last one's, and writes what the first does but for din[0], which is the
	 * last one's; that may lie where data are that the first reads.
	 * Else it reads and writes as the last one does.  Of the first it also reads the output's
	 * gradient as dout[1] and, where its backward does, the output or the input as out[0].
	 * With FF_FUSE_KEEPS it writes the gradient before the last one to dout[0], and din only
	 * when all of dout[1] and out[0] has been read, as with FF_FUSE_LATE.  The further
	 * gradients of those between, of as many elements, it writes to din, behind those of the
	 * last one's inputs; these, and then dout[0], may lie exactly where dout[1] or out[0] does.
	 */
	int (*fuse)(struct ff_device *dev, const struct ff_work *const *w, uint32_t n, uint32_t how,
			struct ff_kernel **ret, struct ff_error *err);
	/* Optional (may be NULL): if *ret says so, the kernel from now on adds the gradient of
	 * `input` to what is at din[input], whose place nothing else that it reads or writes has;
	 * it needs no more scratch for that.  A prelude reads at `left` what its node has left of
	 * the gradient of the first. */
	int (*add)(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err);
	int64_t (*workspace)(const struct ff_kernel *k); /* bytes of scratch it needs */
	int (*run)(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
			struct ff_error *err);
	void (*close)(struct ff_kernel *k);
};

#endif
