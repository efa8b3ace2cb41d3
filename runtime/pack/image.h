/* Images: reading them, cutting squares of one size.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PACK_IMAGE_H
#define FF_PACK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ff/error.h"

#define FF_IMAGE_MOST ((int64_t)1 << 28) /* pixels */

struct ff_image {
	int32_t width, height;
	uint8_t *rgb; /* three bytes a pixel, line by line from the top; malloc's */
};

/* A format is a row.  What `bytes` hold is decoded, else FF_E_INPUT; `path` is for errors. */
typedef int (*ff_image_decode)(const char *path, const uint8_t *bytes, size_t n,
		struct ff_image *ret, struct ff_error *err);
struct ff_image_format {
	const char *ending[3]; /* of names; the first is the format's, too */
	ff_image_decode decode;
};
int ff_pnm_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);
/* png.c and jpeg.c, where libpng and libjpeg are; else without_png.c and without_jpeg.c refuse. */
int ff_png_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);
int ff_jpeg_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);

/* Whether a file of that name is an image. */
bool ff_image_is(const char *name);
int ff_image_load(const char *path, struct ff_image *ret, struct ff_error *err);
/* Accepts a zeroed one. */
void ff_image_free(struct ff_image *image);
/* Memory for width x height pixels, whatever is in them; FF_E_INPUT where they are too many. */
int ff_image_room(const char *path, int64_t width, int64_t height, struct ff_image *ret,
		struct ff_error *err);

/* The image scaled so that its shorter side is `size`, and of that the middle:
 * planes[3][size][size], red, green, blue.  Scaled by a triangle as wide as a pixel of the coarser
 * grid (what Pillow calls bilinear), so that nothing is left out when it is made smaller. */
int ff_image_square(
		const struct ff_image *image, int32_t size, uint8_t *planes, struct ff_error *err);

#endif
