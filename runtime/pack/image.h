/* Images: reading them, cutting squares of one size.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PACK_IMAGE_H
#define FF_PACK_IMAGE_H

#include <stdbool.h>

#include "pixels.h"

/* Whether a file of that name is an image. */
bool ff_image_is(const char *name);
int ff_image_load(const char *path, struct ff_image *ret, struct ff_error *err);
/* The image scaled so that its shorter side is `size`, and of that the middle:
 * planes[3][size][size], red, green, blue.  Scaled by a triangle as wide as a pixel of the coarser
 * grid (what Pillow calls bilinear), so that nothing is left out when it is made smaller. */
int ff_image_square(
		const struct ff_image *image, int32_t size, uint8_t *planes, struct ff_error *err);

#endif
