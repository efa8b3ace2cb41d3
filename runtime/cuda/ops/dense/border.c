/* A border of zeros: all is zeroed, then images are copied.  SPDX-License-Identifier: Apache-2.0 */
#include "border.h"

#include "cuda/core/copy.h"

void ff_border_fill(const struct ff_image *image, int64_t groups, int64_t per_group,
		int64_t group_step, enum ff_dtype type, const int64_t size[FF_MAX_SPATIAL],
		const int64_t first[FF_MAX_SPATIAL], struct ff_border *ret)
{
	int64_t channels = groups * per_group;

	ret->type = type;
	ret->elements = image->n[0] * size[0] * size[1] * size[2] * channels;
	ret->first = ((first[0] * size[1] + first[1]) * size[2] + first[2]) * channels;
	ff_image_loops(image, groups, per_group, group_step, false, &ret->loops);
	ff_image_loops_into(size, &ret->loops);
}

int ff_border_make(const struct ff_kernel *k, const struct ff_border *b, const void *image,
		void *around, cudaStream_t queue, struct ff_error *err)
{
	size_t bytes = (size_t)(b->elements * ff_dtype_bytes(b->type));
	int code = ff_kernel_launched(cudaMemsetAsync(around, 0, bytes, queue), k, err);

	if (code < 0)
		return code;
	return ff_kernel_launched(ff_cuda_strided(&b->loops, b->type, image,
						  ff_to(b->type, around, b->first), queue),
			k, err);
}
