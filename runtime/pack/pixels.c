/* Memory of images.  SPDX-License-Identifier: Apache-2.0 */
#include "pixels.h"

#include <stdlib.h>

void ff_image_free(struct ff_image *image)
{
	free(image->rgb);
	*image = (struct ff_image){0};
}

int ff_image_room(const char *path, int64_t width, int64_t height, struct ff_image *ret,
		struct ff_error *err)
{
	uint8_t *rgb;

	if (width < 1 || height < 1 || width > FF_IMAGE_MOST / height)
		return ff_fail(err, FF_E_INPUT, "%s: is %lldx%lld pixels; from 1 to %lld are read",
				path, (long long)width, (long long)height,
				(long long)FF_IMAGE_MOST);
	rgb = malloc(3 * (size_t)(width * height));
	if (!rgb)
		return ff_fail_memory(err);
	*ret = (struct ff_image){(int32_t)width, (int32_t)height, rgb};
	return FF_OK;
}
