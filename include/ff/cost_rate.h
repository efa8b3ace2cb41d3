/* Rates of work that is no operator: copies, updates, loads, codecs.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_COST_RATE_H
#define FF_COST_RATE_H

#include <stdint.h>

#include "ff/codec.h"

/* Time as a line: latency_us + bytes / bytes_per_us. */
struct ff_rate {
	double latency_us, bytes_per_us;
	uint32_t disturbed;  /* samples during which something else ran */
	int64_t reuse_bytes; /* reuse distance (ff/reuse.h); of a link 0 */
	/* COPY, ADD: with runs of FF_SHORT_RUN_BYTES; bytes_per_us is with FF_LONG_RUN_BYTES.  0:
	 * not measured. */
	double short_bytes_per_us;
	/* LOAD, LOAD_IDS: size of a sample; 0: unknown */
	int64_t sample_bytes;
};
/* Contiguous runs that are copied or added when rates are measured. */
#define FF_LONG_RUN_BYTES 128
#define FF_SHORT_RUN_BYTES 16

/* Bytes of updates and codecs are those of float32 weights and gradients. */
enum ff_rate_kind {
	FF_RATE_COPY,   /* packing and unpacking messages */
	FF_RATE_ADD,    /* partial sums */
	FF_RATE_UPDATE, /* by momentum */
	FF_RATE_LOAD,   /* from the data set */
	FF_RATE_UPDATE_SGD,
	FF_RATE_UPDATE_NESTEROV,
	FF_RATE_UPDATE_ADAM,
	FF_RATE_UPDATE_ADAMW,
	FF_RATE_UPDATE_BF16, /* likewise, also writing the weights in bfloat16 */
	FF_RATE_UPDATE_SGD_BF16,
	FF_RATE_UPDATE_NESTEROV_BF16,
	FF_RATE_UPDATE_ADAM_BF16,
	FF_RATE_UPDATE_ADAMW_BF16,
	FF_RATE_ACCUMULATE, /* gradients added to those of earlier micro-batches */
	FF_RATE_UPLOAD,     /* from pinned memory of the host to the device's */
	FF_RATE_DOWNLOAD,
	FF_RATE_LOAD_IDS,
	FF_RATE_ENCODE, /* + ff_codec_id */
	FF_RATE_DECODE = FF_RATE_ENCODE + FF_CODEC_COUNT,
	FF_RATE_COUNT = FF_RATE_DECODE + FF_CODEC_COUNT
};
const char *ff_rate_name(enum ff_rate_kind k);

#endif
