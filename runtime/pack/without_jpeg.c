/* A build without libjpeg.  SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"

int ff_jpeg_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err)
{
	(void)bytes;
	(void)n;
	(void)ret;
	return ff_fail(err, FF_E_INPUT, "%s: this build reads no JPEG (libjpeg was not there)",
			path);
}
