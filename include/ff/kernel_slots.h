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
	 * Forward each is the only reader of what the one before writes.  It reads as the first
	 * does, behind that one's inputs those that the others have beside, and writes what the
	 * last one does to out[0], which may lie exactly where one of these does, and what lies
	 * between, if that is kept, to the output behind the first one's.
	 * Backward each begins with a gradient that the one before ends with: that of an input of
	 * that one, and of its own only output.
	 * If the last one has one input, there are two, and the kernel reads as the first does,
	 * behind that one's inputs the last one's, and writes what the first does but for din[0],
	 * which is the last one's; that may lie where data are that the first reads.
	 * Else it reads and writes as the last one does, and also reads of the first the output or
	 * the input, where its backward does, as out[0], and the output's gradient as dout[1]. What
	 * lies before the last one, if that is kept, it writes to dout[0], and din only when all of
	 * dout[1] and out[0] has been read, as with FF_FUSE_LATE.  The gradients that those between
	 * have beside, of as many elements, it writes behind the last one's inputs' in din; these,
	 * and then dout[0], may lie exactly where dout[1] or out[0] does. */
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
