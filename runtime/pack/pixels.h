/* Pixels of an image, and the memory of them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PACK_PIXELS_H
#define FF_PACK_PIXELS_H

#include <stdint.h>

#include "ff/error.h"

#define FF_IMAGE_MOST ((int64_t)1 << 28) /* pixels */

struct ff_image {
	int32_t width, height;
	uint8_t *rgb; /* three bytes a pixel, line by line from the top; malloc's */
};

/* Accepts a zeroed one. */
void ff_image_free(struct ff_image *image);
/* Memory for width x height pixels, whatever is in them; FF_E_INPUT where they are too many. */
int ff_image_room(const char *path, int64_t width, int64_t height, struct ff_image *ret,
		struct ff_error *err);

#endif
