/* Formats of images.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PACK_FORMATS_H
#define FF_PACK_FORMATS_H

#include <stddef.h>

#include "pixels.h"

/* What `bytes` hold is decoded, else FF_E_INPUT; `path` is for errors. */
int ff_pnm_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);
/* png.c and jpeg.c, where libpng and libjpeg are; else without_png.c and without_jpeg.c refuse. */
int ff_png_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);
int ff_jpeg_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err);

#endif
