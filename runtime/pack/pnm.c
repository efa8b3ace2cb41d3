/* Netpbm's images of bytes: P5 (grey) and P6 (colours).  SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"

#include <stdbool.h>
#include <string.h>

struct text {
	const uint8_t *at, *end;
};

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A number behind spaces and comments; -1: there is none. */
static int64_t read_number(struct text *t)
{
	int64_t n = 0;

	while (t->at < t->end && (is_space(*t->at) || *t->at == '#')) {
		bool comment = *t->at == '#';

		while (comment && t->at < t->end && *t->at != '\n')
			t->at++;
		t->at += t->at < t->end;
	}
	if (t->at == t->end || *t->at < '0' || *t->at > '9')
		return -1;
	while (t->at < t->end && *t->at >= '0' && *t->at <= '9' && n < FF_IMAGE_MOST)
		n = 10 * n + (*t->at++ - '0');
	return n;
}

int ff_pnm_decode(const char *path, const uint8_t *bytes, size_t n, struct ff_image *ret,
		struct ff_error *err)
{
	struct text t = {bytes + 2, bytes + n};
	int64_t width, height, most, need;
	uint32_t channels;
	int code;

	if (n < 2 || bytes[0] != 'P' || (bytes[1] != '5' && bytes[1] != '6'))
		return ff_fail(err, FF_E_INPUT, "%s: byte 0: expected P5 or P6", path);
	channels = bytes[1] == '6' ? 3 : 1;
	width = read_number(&t);
	height = read_number(&t);
	most = read_number(&t);
	if (width < 1 || height < 1 || most < 1 || most > 255 || t.at == t.end || !is_space(*t.at))
		return ff_fail(err, FF_E_INPUT,
				"%s: byte %lld: expected width, height and a largest value of at "
				"most 255",
				path, (long long)(t.at - bytes));
	t.at++;
	if ((code = ff_image_room(path, width, height, ret, err)) < 0)
		return code;
	need = width * height * channels;
	if (t.end - t.at < need) {
		ff_image_free(ret);
		return ff_fail(err, FF_E_INPUT, "%s: is truncated: %lld bytes are missing", path,
				(long long)(need - (t.end - t.at)));
	}
	for (int64_t i = 0; i < 3 * width * height; i++) {
		int64_t level = t.at[channels == 3 ? i : i / 3];

		ret->rgb[i] = (uint8_t)(level >= most ? 255 : (255 * level + most / 2) / most);
	}
	return FF_OK;
}
