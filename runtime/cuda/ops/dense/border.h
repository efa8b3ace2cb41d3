/* Images that are brought into larger ones, with zeros around them.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_CUDA_BORDER_H
#define FF_CUDA_BORDER_H

#include "cuda/core/kernel.h"
#include "ff/strided.h"
#include "kernels/windows.h"

struct ff_border {
	enum ff_dtype type;
	struct ff_strided loops; /* from the shard, from its first channel, to where images begin */
	int64_t elements, first; /* of the larger images; where they begin in these */
};

/* Of `groups` x `per_group` channels (ff_image_loops), to images of `size`, `first` pixels from
 * their edges. */
void ff_border_fill(const struct ff_image *image, int64_t groups, int64_t per_group,
		int64_t group_step, enum ff_dtype type, const int64_t size[FF_MAX_SPATIAL],
		const int64_t first[FF_MAX_SPATIAL], struct ff_border *ret);
/* `around` has room for all elements. */
int ff_border_make(const struct ff_kernel *k, const struct ff_border *b, const void *image,
		void *around, cudaStream_t queue, struct ff_error *err);

#endif
