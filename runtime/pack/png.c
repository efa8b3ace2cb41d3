/* PNG by libpng's simple interface (libpng manual, section VIII).  What is transparent shows
 * black.  SPDX-License-Identifier: Apache-2.0 */
#include <png.h>
#include <string.h>

#include "formats.h"

int ff_png_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err)
{
	const png_color black = {0, 0, 0};
	png_image png = {.version = PNG_IMAGE_VERSION};
	int code;

	if (!png_image_begin_read_from_memory(&png, bytes, n))
		return ff_fail(err, FF_E_INPUT, "%s: %s", path, png.message);
	png.format = PNG_FORMAT_RGB;
	code = ff_image_room(path, png.width, png.height, ret, err);
	if (code == FF_OK && (!png_image_finish_read(&png, &black, ret->rgb, 0, NULL) ||
					     PNG_IMAGE_FAILED(png))) {
		ff_image_free(ret);
		code = ff_fail(err, FF_E_INPUT, "%s: %s", path, png.message);
	}
	png_image_free(&png);
	return code;
}
