/* A backend's kernels: for one work, or for several works fused.
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

/* Options of a fused kernel. */
enum ff_fuse {
	FF_FUSE_KEEPS = 1, /* stores the value between the last two works, for later readers */
	FF_FUSE_OVER = 2,  /* an output may have exactly the place of an input of equal size */
	FF_FUSE_LATE = 4,  /* backward: an output may overlap inputs of the first work in part, so
			    * din is written only when all of these have been read; dout[0] has room
			    * as with FF_FUSE_KEEPS */
};
#define FF_FUSE_MOST 3 /* works */

struct ff_kernel_slots {
	/* Prepares a kernel for `w` (copied as needed). */
	int (*open)(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
			struct ff_error *err);
	/* Optional (may be NULL): a kernel for `n` works in their order, 2 to FF_FUSE_MOST; `how`:
	 * bits of enum ff_fuse.  *ret is left alone if there is none.
	 *
	 * Forward: each work is the only reader of the output before it.
	 *   in       the first work's inputs, then the other inputs of the others
	 *   out[0]   the last work's output; it may have exactly the place of one of these other
	 *            inputs
	 *   next     with FF_FUSE_KEEPS: the value between, in the output after the first work's
	 *
	 * Backward: the gradient of an input of each work is that of the next work's only output.
	 * If the last work has one input there are two works:
	 *   in       the first work's inputs, then the last one's
	 *   outputs  the first work's, but din[0] is the last one's; it may have the place of data
	 *            that the first work reads
	 * Otherwise operands are those of the last work, and in addition:
	 *   dout[1]  gradient of the first work's output
	 *   out[0]   the first work's output or input, if its backward reads that
	 *   din      after the last work's: the other gradients of the works between, each of as
	 *            many elements
	 *   dout[0]  with FF_FUSE_KEEPS: the gradient before the last work; din is then written
	 *            when all of dout[1] and out[0] has been read, as with FF_FUSE_LATE
	 * The other gradients and dout[0] may have exactly the place of dout[1] or out[0]. */
	int (*fuse)(struct ff_device *dev, const struct ff_work *const *w, uint32_t n, uint32_t how,
			struct ff_kernel **ret, struct ff_error *err);
	/* Optional (may be NULL): if *ret, the kernel from now on adds the gradient of `input` to
	 * din[input], which overlaps no other operand.  It needs no more scratch for that.  A
	 * prelude then reads its node's share of the gradient of the first input at `left`. */
	int (*add)(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err);
	int64_t (*workspace)(const struct ff_kernel *k); /* bytes of scratch that it needs */
	int (*run)(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
			struct ff_error *err);
	void (*close)(struct ff_kernel *k);
};

#endif
