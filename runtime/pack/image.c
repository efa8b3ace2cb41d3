/* Images, whatever their format.  SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/store.h"
#include "formats.h"

/* A format is a row (formats.h). */
typedef int (*ff_image_decode)(const char *path, const uint8_t *bytes, size_t n,
		struct ff_image *ret, struct ff_error *err);
struct ff_image_format {
	const char *ending[3]; /* of names; the first is the format's, too */
	ff_image_decode decode;
};
static const struct ff_image_format formats[] = {
		{{"pnm", "ppm", "pgm"}, ff_pnm_decode},
		{{"png"}, ff_png_decode},
		{{"jpeg", "jpg"}, ff_jpeg_decode},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static const struct ff_image_format *format_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; i < FORMATS && dot; i++)
		for (int k = 0; k < 3 && formats[i].ending[k]; k++)
			if (!strcasecmp(dot + 1, formats[i].ending[k]))
				return &formats[i];
	return NULL;
}

bool ff_image_is(const char *name)
{
	return format_of(name);
}

int ff_image_load(const char *path, struct ff_image *ret, struct ff_error *err)
{
	const struct ff_image_format *format = format_of(path);
	struct ff_store *store;
	uint8_t *bytes;
	int64_t n;
	int code = ff_store_open(path, &store, err);

	if (code < 0)
		return code;
	code = ff_store_whole(store, err);
	n = ff_store_bytes(store);
	bytes = malloc((size_t)n + 1);
	if (code == FF_OK && !bytes)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_store_read(store, 0, (size_t)n, bytes, err);
	if (code == FF_OK)
		code = format->decode(path, bytes, (size_t)n, ret, err);
	free(bytes);
	ff_store_close(store);
	return code;
}

/* ---- scaling ---- */

/* What one place of the result takes of a line of the image. */
struct tap {
	int32_t first, n;
	float *share; /* n of them, which add up to one */
};

/* `size` places from `offset` on, in a grid `scale` times as coarse as the image's. */
static int make_taps(int32_t length, int32_t size, double offset, double scale, struct tap **ret,
		struct ff_error *err)
{
	double reach = scale > 1 ? scale : 1;
	int32_t most = (int32_t)ceil(reach) * 2 + 1;
	struct tap *tap = calloc((size_t)size, sizeof(*tap) + (size_t)most * sizeof(float));
	float *share = tap ? (float *)(tap + size) : NULL;

	if (!tap)
		return ff_fail_memory(err);
	for (int32_t i = 0; i < size; i++, share += most) {
		double centre = (offset + i + 0.5) * scale, sum = 0;
		int32_t lo = (int32_t)fmax(0, floor(centre - reach + 0.5));
		int32_t hi = (int32_t)fmin(length, floor(centre + reach + 0.5));

		tap[i] = (struct tap){lo, hi - lo < most ? hi - lo : most, share};
		for (int32_t k = 0; k < tap[i].n; k++) {
			double away = fabs(lo + k + 0.5 - centre) / reach;

			share[k] = (float)(away < 1 ? 1 - away : 0);
			sum += (double)share[k];
		}
		for (int32_t k = 0; k < tap[i].n; k++)
			share[k] = (float)((double)share[k] / sum);
	}
	*ret = tap;
	return FF_OK;
}

/* All lines of the image, `size` places wide: three numbers each. */
static void scale_lines(
		const struct ff_image *image, int32_t size, const struct tap *tap, float *lines)
{
	for (int32_t y = 0; y < image->height; y++)
		for (int32_t x = 0; x < size; x++, lines += 3) {
			const uint8_t *in =
					image->rgb + 3 * ((int64_t)y * image->width + tap[x].first);

			lines[0] = lines[1] = lines[2] = 0;
			for (int32_t k = 0; k < tap[x].n; k++, in += 3)
				for (int c = 0; c < 3; c++)
					lines[c] += tap[x].share[k] * (float)in[c];
		}
}

static void scale_columns(const float *lines, int32_t size, const struct tap *tap, uint8_t *planes)
{
	for (int c = 0; c < 3; c++)
		for (int32_t y = 0; y < size; y++)
			for (int32_t x = 0; x < size; x++) {
				const float *in =
						lines + 3 * ((int64_t)tap[y].first * size + x) + c;
				float sum = 0;

				for (int32_t k = 0; k < tap[y].n; k++, in += 3 * (int64_t)size)
					sum += tap[y].share[k] * *in;
				*planes++ = (uint8_t)fminf(255, floorf(sum + 0.5f));
			}
}

int ff_image_square(
		const struct ff_image *image, int32_t size, uint8_t *planes, struct ff_error *err)
{
	int32_t side = image->width < image->height ? image->width : image->height;
	double scale = (double)side / size;
	double across = floor((image->width / scale - size) / 2);
	double down = floor((image->height / scale - size) / 2);
	float *lines = malloc(3 * (size_t)image->height * (size_t)size * sizeof(*lines));
	struct tap *x = NULL, *y = NULL;
	int code = lines ? FF_OK : ff_fail_memory(err);

	if (code == FF_OK)
		code = make_taps(image->width, size, across, scale, &x, err);
	if (code == FF_OK)
		code = make_taps(image->height, size, down, scale, &y, err);
	if (code == FF_OK) {
		scale_lines(image, size, x, lines);
		scale_columns(lines, size, y, planes);
	}
	free(lines);
	free(x);
	free(y);
	return code;
}
