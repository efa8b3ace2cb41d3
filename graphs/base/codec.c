/* Codecs, row by row.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/codec.h"

#include <stdio.h>
#include <string.h>

#include "ff/nearest.h"

static const struct ff_codec bf16 = {
		.id = FF_CODEC_BF16,
		.name = "bfloat16",
		.summary = "16 bits an element",
		.type = FF_BF16,
		.block = FF_CODEC_STEP,
		.bits = 16,
		.encode_cost = 1,
		.decode_cost = 0.75,
};

/* A scale a block; 0, the scale, or less the scale an element. */
static const struct ff_codec ternary = {
		.id = FF_CODEC_TERNARY,
		.name = "ternary",
		.summary = "2 bits an element and a scale for 512",
		.type = FF_I32,
		.block = 512,
		.head_bytes = FF_F32_BYTES,
		.bits = 2,
		.encode_cost = 1.5,
		.decode_cost = 0.75,
};

static const struct ff_codec *const rows[FF_CODEC_COUNT] = {
#define FF_CODEC_ROW(e, row) [e] = &(row),
		FF_CODECS(FF_CODEC_ROW)
#undef FF_CODEC_ROW
};

const struct ff_codec *ff_codec(enum ff_codec_id id)
{
	return rows[id];
}

void ff_codec_list(char text[FF_CODEC_TEXT])
{
	size_t used = 0;

	for (uint32_t i = 0; i < FF_CODEC_COUNT; i++)
		used += (size_t)snprintf(text + used, FF_CODEC_TEXT - used, "%s%s (%s)",
				i ? " or " : "", rows[i]->name, rows[i]->summary);
}

int ff_codec_find(const char *name, const struct ff_codec **ret, struct ff_error *err)
{
	char known[FF_CODEC_TEXT];
	struct ff_nearest near;

	if (!strcmp(name, "none")) {
		*ret = NULL;
		return FF_OK;
	}
	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < FF_CODEC_COUNT; i++) {
		if (!strcmp(rows[i]->name, name)) {
			*ret = rows[i];
			return FF_OK;
		}
		ff_nearest_try(&near, rows[i]->name);
	}
	ff_codec_list(known);
	return ff_fail(err, FF_E_INPUT, "expected %s or none, not \"%.60s\"%s", known, name,
			ff_nearest_hint(&near));
}
