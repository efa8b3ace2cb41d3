/* Codecs compress gradients between devices (docs/gradients.md).  They change what is computed, so
 * only the user turns them on.  A codec is data: a row, and in every backend a kernel to encode and
 * one to decode.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CODEC_H
#define FF_CODEC_H

#include "ff/dtype.h"
#include "ff/error.h"

/* X(enumerator, row): `row` names the row in graphs/base/codec.c and the kernels
 * `ff_<backend>_<row>_encode` and `..._decode` of every backend. */
#define FF_CODECS(X)                                                                               \
	X(FF_CODEC_BF16, bf16)                                                                     \
	X(FF_CODEC_TERNARY, ternary)

enum ff_codec_id {
#define FF_CODEC_ENUM(e, row) e,
	FF_CODECS(FF_CODEC_ENUM)
#undef FF_CODEC_ENUM
			FF_CODEC_COUNT
};

/* float32 elements are encoded in blocks of `block`; the last block may be shorter by a multiple of
 * FF_CODEC_STEP.  A block takes `head_bytes`, then `bits` an element. */
struct ff_codec {
	enum ff_codec_id id;
	const char *name, *summary; /* in files and options; a few words for help */
	enum ff_dtype type;         /* element type of messages, for the communication library */
	int64_t block, head_bytes, bits;
	/* Without measurements: its cost relative to adding the gradients to others. */
	double encode_cost, decode_cost;
};
#define FF_CODEC_STEP 16

const struct ff_codec *ff_codec(enum ff_codec_id id);
/* FF_E_INPUT if there is none of that name; *ret is NULL for "none". */
int ff_codec_find(const char *name, const struct ff_codec **ret, struct ff_error *err);
#define FF_CODEC_TEXT 192
/* "bfloat16 (...) or ternary (...)" */
void ff_codec_list(char text[FF_CODEC_TEXT]);

/* Bytes of `elements` encoded elements, a multiple of FF_CODEC_STEP. */
static inline int64_t ff_codec_bytes(const struct ff_codec *c, int64_t elements)
{
	return (elements + c->block - 1) / c->block * c->head_bytes + elements * c->bits / 8;
}

/* A compressed all-reduce sums chunks of whole blocks, one a device: the first element of chunk `i`
 * of `n`; with i == n the end of the last one. */
static inline int64_t ff_codec_chunk(
		const struct ff_codec *c, int64_t elements, uint32_t n, uint32_t i)
{
	int64_t blocks = (elements + c->block - 1) / c->block, at = blocks * i / n * c->block;

	return at < elements ? at : elements;
}
/* The size of the largest chunk, in elements. */
static inline int64_t ff_codec_most(const struct ff_codec *c, int64_t elements, uint32_t n)
{
	int64_t blocks = (elements + c->block - 1) / c->block,
		most = (blocks + n - 1) / n * c->block;

	return most < elements ? most : elements;
}

/* Staging of a device: the encoded elements, then a slot for its chunk from each other device. Each
 * is a multiple of 64 bytes. */
static inline int64_t ff_codec_slot_bytes(const struct ff_codec *c, int64_t elements, uint32_t n)
{
	return (ff_codec_bytes(c, ff_codec_most(c, elements, n)) + 63) / 64 * 64;
}
static inline int64_t ff_codec_stage_bytes(const struct ff_codec *c, int64_t elements, uint32_t n)
{
	return (ff_codec_bytes(c, elements) + 63) / 64 * 64 +
	       (n - 1) * ff_codec_slot_bytes(c, elements, n);
}

#endif
