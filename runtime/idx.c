/* IDX files, the format of MNIST (LeCun, Cortes and Burges,
 * http://yann.lecun.com/exdb/mnist): a big-endian magic 0x0000TTRR (TT = 08 for
 * bytes, RR the rank), the sizes, the bytes.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include <math.h>

#include "source.h"

#define IDX_MAX_RANK 4
#define IDX_CHUNK ((size_t)1 << 20)

struct idx_file {
	char path[4096];
	uint32_t rank;
	int64_t size[IDX_MAX_RANK];
	int64_t bytes;
	uint8_t *data;
};

struct idx {
	struct ff_source base;
	struct idx_file images[2], labels[2]; /* for testing, for training */
	int64_t elements;
	float value[256]; /* of each grey level, normalised */
};

static const char *const prefix[2] = {"t10k", "train"};

static int find_file(const char *folder, const char *name, struct idx_file *f, struct ff_error *err)
{
	static const char *const ending[2] = {".gz", ""};

	for (int i = 0; i < 2; i++) {
		struct stat st;
		int n = snprintf(f->path, sizeof(f->path), "%s/%s%s", folder, name, ending[i]);

		if (n < 0 || (size_t)n >= sizeof(f->path))
			return ff_fail(err, FF_E_INPUT, "%.64s...: the name is too long", folder);
		if (stat(f->path, &st) == 0 && S_ISREG(st.st_mode))
			return FF_OK;
	}
	return ff_fail(err, FF_E_INPUT, "%s: neither %s nor %s.gz is there", folder, name, name);
}

/* Reads exactly `n` bytes; what the file lacks is an error that says where. */
static int read_exactly(gzFile in, const struct idx_file *f, void *to, size_t n, int64_t at,
		struct ff_error *err)
{
	int got = gzread(in, to, (unsigned int)n), number;

	if (got == (int)n)
		return FF_OK;
	if (got < 0 || (gzerror(in, &number), number != Z_OK && number != Z_STREAM_END))
		return ff_fail(err, FF_E_INPUT, "%s: byte %" PRId64 ": cannot be read: %s", f->path,
				at, gzerror(in, &number));
	return ff_fail(err, FF_E_INPUT,
			"%s: is truncated: ends at byte %" PRId64 ", expected %zu more", f->path,
			at + got, n - (size_t)got);
}

static int read_header(gzFile in, uint32_t rank, struct idx_file *f, struct ff_error *err)
{
	uint8_t head[4 + 4 * IDX_MAX_RANK];
	uint32_t magic;
	int code = read_exactly(in, f, head, 4, 0, err);

	if (code < 0)
		return code;
	magic = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 |
		head[3];
	if (magic != (0x800 | rank))
		return ff_fail(err, FF_E_INPUT, "%s: magic number is 0x%08x, expected 0x%08x",
				f->path, magic, 0x800 | rank);
	if ((code = read_exactly(in, f, head + 4, 4 * (size_t)rank, 4, err)) < 0)
		return code;
	f->rank = rank;
	f->bytes = 1;
	for (uint32_t i = 0; i < rank; i++) {
		const uint8_t *b = head + 4 + 4 * (size_t)i;

		f->size[i] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
		if (f->size[i] == 0)
			return ff_fail(err, FF_E_INPUT, "%s: byte %u: size %u is zero", f->path,
					4 + 4 * i, i);
		if (__builtin_mul_overflow(f->bytes, f->size[i], &f->bytes))
			return ff_fail(err, FF_E_INPUT, "%s: byte 4: the sizes overflow 64 bits",
					f->path);
	}
	return FF_OK;
}

/* The memory grows with what is really there: a header may claim anything. */
static int read_body(gzFile in, struct idx_file *f, struct ff_error *err)
{
	int64_t header = 4 + 4 * (int64_t)f->rank, at = 0, cap = 0;
	uint8_t extra;

	while (at < f->bytes) {
		size_t n = f->bytes - at < (int64_t)IDX_CHUNK ? (size_t)(f->bytes - at) : IDX_CHUNK;
		int code;

		if (at + (int64_t)n > cap) {
			uint8_t *grown;

			cap = 2 * cap > at + (int64_t)n ? 2 * cap : at + (int64_t)n;
			cap = cap > f->bytes ? f->bytes : cap;
			grown = realloc(f->data, (size_t)cap);
			if (!grown)
				return ff_fail_memory(err);
			f->data = grown;
		}
		if ((code = read_exactly(in, f, f->data + at, n, header + at, err)) < 0)
			return code;
		at += (int64_t)n;
	}
	if (gzread(in, &extra, 1) != 0)
		return ff_fail(err, FF_E_INPUT,
				"%s: goes on behind byte %" PRId64 ", where its sizes end it",
				f->path, header + f->bytes);
	return FF_OK;
}

static int read_file(const char *folder, bool train, const char *what, uint32_t rank,
		struct idx_file *f, struct ff_error *err)
{
	char name[64];
	gzFile in;
	int code;

	snprintf(name, sizeof(name), "%s-%s-idx%u-ubyte", prefix[train], what, rank);
	if ((code = find_file(folder, name, f, err)) < 0)
		return code;
	in = gzopen(f->path, "rb");
	if (!in)
		return ff_fail(err, FF_E_INPUT, "%s: %s", f->path, strerror(errno));
	code = read_header(in, rank, f, err);
	if (code == FF_OK)
		code = read_body(in, f, err);
	gzclose(in);
	return code;
}

static int check_shape(const struct idx_file *images, const struct ff_sample_shape *shape,
		struct ff_error *err)
{
	const int32_t *want = shape->shape;
	uint32_t rank = shape->rank;
	char text[96] = "";
	size_t len = 0;

	/* one channel may be said or not, and a flat vector holds the rows */
	if (rank == 3 && want[0] == 1) {
		want++;
		rank--;
	}
	if ((rank == 2 && want[0] == images->size[1] && want[1] == images->size[2]) ||
			(rank == 1 && want[0] == images->size[1] * images->size[2]))
		return FF_OK;
	for (uint32_t i = 0; i < shape->rank; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d", i ? "x" : "",
				shape->shape[i]);
	return ff_fail(err, FF_E_INPUT,
			"%s: samples are %" PRId64 "x%" PRId64 ", the graph's input wants %s",
			images->path, images->size[1], images->size[2], text);
}

static int check_pair(const struct idx *x, bool train, const struct ff_sample_shape *shape,
		struct ff_error *err)
{
	const struct idx_file *images = &x->images[train], *labels = &x->labels[train];
	int code = check_shape(images, shape, err);

	if (code < 0)
		return code;
	if (images->size[0] != labels->size[0])
		return ff_fail(err, FF_E_INPUT,
				"%s: holds %" PRId64 " labels, but %s %" PRId64 " images",
				labels->path, labels->size[0], images->path, images->size[0]);
	for (int64_t i = 0; i < labels->bytes; i++)
		if (labels->data[i] >= shape->classes)
			return ff_fail(err, FF_E_INPUT,
					"%s: byte %" PRId64
					": label %d, but the graph has %d classes",
					labels->path, 8 + i, labels->data[i], shape->classes);
	return FF_OK;
}

/* Grey levels in [0, 1], then with mean 0 and deviation 1 over the training set. */
static void normalise(const struct idx_file *images, float value[256])
{
	int64_t count[256] = {0};
	double mean = 0, square = 0, deviation;

	for (int64_t i = 0; i < images->bytes; i++)
		count[images->data[i]]++;
	for (int i = 0; i < 256; i++) {
		double v = i / 255.0, share = (double)count[i] / (double)images->bytes;

		mean += share * v;
		square += share * v * v;
	}
	deviation = sqrt(square - mean * mean > 0 ? square - mean * mean : 0);
	for (int i = 0; i < 256; i++)
		value[i] = (float)((i / 255.0 - mean) / (deviation > 0 ? deviation : 1));
}

static void idx_line(const struct ff_source *s, bool train, int64_t sample, int64_t first,
		int32_t n, float *out, int64_t step)
{
	const struct idx *x = (const struct idx *)s;
	const uint8_t *in = x->images[train].data + sample * x->elements + first;

	for (int32_t i = 0; i < n; i++)
		out[i * step] = x->value[in[i]];
}

static int32_t idx_label(const struct ff_source *s, bool train, int64_t sample)
{
	return ((const struct idx *)s)->labels[train].data[sample];
}

static void idx_close(struct ff_source *s)
{
	struct idx *x = (struct idx *)s;

	for (int train = 0; train < 2; train++) {
		free(x->images[train].data);
		free(x->labels[train].data);
	}
	free(x);
}

int ff_idx_open(const char *folder, const struct ff_sample_shape *shape, struct ff_source **ret,
		struct ff_error *err)
{
	struct idx *x = calloc(1, sizeof(*x));
	int code = FF_OK;

	if (!x)
		return ff_fail_memory(err);
	x->elements = shape->elements;
	for (int train = 1; train >= 0 && code == FF_OK; train--) {
		if ((code = read_file(folder, train, "images", 3, &x->images[train], err)) < 0 ||
				(code = read_file(folder, train, "labels", 1, &x->labels[train],
						 err)) < 0)
			break;
		code = check_pair(x, train, shape, err);
		x->base.samples[train] = x->images[train].size[0];
	}
	if (code < 0) {
		idx_close(&x->base);
		return code;
	}
	normalise(&x->images[1], x->value);
	x->base.line = idx_line;
	x->base.label = idx_label;
	x->base.close = idx_close;
	*ret = &x->base;
	return FF_OK;
}
