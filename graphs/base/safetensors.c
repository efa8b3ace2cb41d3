/* Files of whole tensors.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "ff/dtype.h"
#include "names.h"

#define LEAD 8                        /* bytes of the header's length */
#define MOST_HEADER 100000000         /* as the format's own reader has it */
#define MOST_BYTES (INT64_C(1) << 53) /* what JSON numbers tell exactly */
#define CHUNK 65536                   /* bytes that are read and converted at a time */
#define SUMS "__crc32__" /* CRC-32 of what is before the elements, then of each tensor */

/* IEEE 754 binary16. */
static float from_f16(uint16_t x)
{
	int exponent = x >> 10 & 31, fraction = x & 1023;
	float size = exponent == 31 ? (fraction ? NAN : INFINITY)
		     : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
				    : ldexpf((float)fraction, -24);

	return x >> 15 ? -size : size;
}

static void take_f64(const void *from, size_t n, float *to)
{
	const double *v = from;

	for (size_t i = 0; i < n; i++)
		to[i] = (float)v[i];
}

static void take_f32(const void *from, size_t n, float *to)
{
	memcpy(to, from, n * sizeof(*to));
}

static void take_f16(const void *from, size_t n, float *to)
{
	const uint16_t *v = from;

	for (size_t i = 0; i < n; i++)
		to[i] = from_f16(v[i]);
}

static void take_bf16(const void *from, size_t n, float *to)
{
	const uint16_t *v = from;

	for (size_t i = 0; i < n; i++)
		to[i] = ff_bf16_to_f32(v[i]);
}

/* The format's element types; all that have no `take` are known by their size alone. */
static const struct type {
	const char *name;
	int64_t bytes;
	void (*take)(const void *from, size_t n, float *to);
} types[] = {
		{"F64", 8, take_f64},
		{"F32", 4, take_f32},
		{"F16", 2, take_f16},
		{"BF16", 2, take_bf16},
		{"I64", 8, NULL},
		{"U64", 8, NULL},
		{"I32", 4, NULL},
		{"U32", 4, NULL},
		{"I16", 2, NULL},
		{"U16", 2, NULL},
		{"I8", 1, NULL},
		{"U8", 1, NULL},
		{"BOOL", 1, NULL},
		{"F8_E5M2", 1, NULL},
		{"F8_E4M3", 1, NULL},
};

static const struct type *type_of(const char *name)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

static int fail_read(const char *path, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
}

/* All of `bytes` from `at`; a file that ends before is FF_E_IO. */
static int read_all(const struct ff_tensors *f, int64_t at, size_t bytes, void *to,
		struct ff_error *err)
{
	char *next = to;

	while (bytes) {
		ssize_t got = pread(f->fd, next, bytes, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ff_fail(err, FF_E_IO, "%s: cannot be read: %s", f->path,
					strerror(errno));
		if (got == 0)
			return ff_fail(err, FF_E_IO, "%s: ended while it was read", f->path);
		next += got;
		at += got;
		bytes -= (size_t)got;
	}
	return FF_OK;
}

static int parse_shape(const struct ff_json *item, struct ff_tensor *t, struct ff_error *err)
{
	const struct ff_json *shape;
	int code = ff_json_need(item, "shape", FF_JSON_ARRAY, &shape, err);

	if (code < 0)
		return code;
	if (shape->n > FF_TENSOR_RANK)
		return ff_json_fail(shape, err, "expected at most %d axes", FF_TENSOR_RANK);
	t->rank = shape->n;
	t->elements = 1;
	for (uint32_t i = 0; i < shape->n; i++) {
		code = ff_json_as_int(&shape->child[i], 0, MOST_BYTES, &t->shape[i], err);
		if (code < 0)
			return code;
		if (__builtin_mul_overflow(t->elements, t->shape[i], &t->elements) ||
				t->elements > MOST_BYTES)
			return ff_json_fail(shape, err, "too many elements");
	}
	return FF_OK;
}

/* `first` is where in the file the elements of all tensors begin, `room` how many bytes
 * there are. */
static int parse_tensor(const struct ff_json *item, int64_t first, int64_t room,
		struct ff_tensor *t, struct ff_error *err)
{
	static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
	const struct ff_json *offsets;
	const struct type *type;
	int64_t from, to;
	int code;

	if (item->type != FF_JSON_OBJECT)
		return ff_json_fail(item, err, "expected an object");
	t->name = item->key;
	if ((code = ff_json_only(item, keys, err)) < 0 ||
			(code = ff_json_string(item, "dtype", &t->type, err)) < 0 ||
			(code = parse_shape(item, t, err)) < 0 ||
			(code = ff_json_need(item, "data_offsets", FF_JSON_ARRAY, &offsets, err)) <
					0)
		return code;
	type = type_of(t->type);
	if (!type)
		return ff_json_fail(item, err, "dtype \"%s\" is not known", t->type);
	if (offsets->n != 2)
		return ff_json_fail(offsets, err, "expected two offsets");
	if ((code = ff_json_as_int(&offsets->child[0], 0, MOST_BYTES, &from, err)) < 0 ||
			(code = ff_json_as_int(&offsets->child[1], from, MOST_BYTES, &to, err)) < 0)
		return code;
	if (to > room)
		return ff_json_fail(offsets, err, "the file ends %" PRId64 " bytes too early",
				to - room);
	if ((to - from) % type->bytes || (to - from) / type->bytes != t->elements)
		return ff_json_fail(offsets, err,
				"%" PRId64 " bytes, but %" PRId64 " elements of %s", to - from,
				t->elements, t->type);
	t->at = first + from;
	t->bytes = to - from;
	return FF_OK;
}

static int by_place(const void *a, const void *b)
{
	const struct ff_tensor *x = *(const struct ff_tensor *const *)a;
	const struct ff_tensor *y = *(const struct ff_tensor *const *)b;

	if (x->at != y->at)
		return (x->at > y->at) - (x->at < y->at);
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Every byte belongs to one tensor. */
static int check_places(const struct ff_tensors *f, int64_t first, int64_t end, struct ff_arena *a,
		struct ff_error *err)
{
	const struct ff_tensor **sorted = ff_arena_array(a, f->n, sizeof(*sorted));
	int64_t at = first;

	if (!sorted)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < f->n; i++)
		sorted[i] = &f->tensor[i];
	qsort(sorted, f->n, sizeof(*sorted), by_place);
	for (uint32_t i = 0; i < f->n; i++) {
		if (sorted[i]->at != at)
			return ff_fail(err, FF_E_INPUT, "%s: %s %s the tensor before it", f->path,
					sorted[i]->name,
					sorted[i]->at < at ? "overlaps" : "leaves a hole behind");
		at += sorted[i]->bytes;
	}
	if (at != end)
		return ff_fail(err, FF_E_INPUT,
				"%s: %" PRId64 " bytes at its end belong to no tensor", f->path,
				end - at);
	return FF_OK;
}

static int parse_notes(const struct ff_json *item, struct ff_tensors *f, struct ff_error *err)
{
	if (item->type != FF_JSON_OBJECT)
		return ff_json_fail(item, err, "expected an object");
	for (uint32_t i = 0; i < item->n; i++)
		if (item->child[i].type != FF_JSON_STRING)
			return ff_json_fail(&item->child[i], err, "expected a text");
	f->notes = item;
	return FF_OK;
}

static int parse_header(const struct ff_json *root, int64_t first, int64_t end, struct ff_arena *a,
		struct ff_tensors *f, struct ff_error *err)
{
	int code = FF_OK;

	if (root->type != FF_JSON_OBJECT)
		return ff_json_fail(root, err, "expected an object");
	f->tensor = ff_arena_array(a, root->n, sizeof(*f->tensor));
	f->names = ff_arena_alloc(a, sizeof(*f->names));
	if (!f->tensor || !f->names)
		return ff_fail_memory(err);
	ff_names_init(f->names, a);
	for (uint32_t i = 0; i < root->n && code == FF_OK; i++) {
		const struct ff_json *item = &root->child[i];

		if (!strcmp(item->key, "__metadata__")) {
			code = parse_notes(item, f, err);
			continue;
		}
		code = parse_tensor(item, first, end - first, &f->tensor[f->n], err);
		if (code == FF_OK && ff_names_put(f->names, item->key, f->n) < 0)
			code = ff_fail_memory(err);
		f->n++;
	}
	return code < 0 ? code : check_places(f, first, end, a, err);
}

static int read_header(struct ff_tensors *f, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_json *root;
	uint8_t lead[LEAD];
	uint64_t len = 0;
	struct stat st;
	char *text;
	int code;

	if (fstat(f->fd, &st) < 0)
		return fail_read(f->path, err);
	if (!S_ISREG(st.st_mode))
		return ff_fail(err, FF_E_INPUT, "%s: expected a plain file", f->path);
	if (st.st_size < LEAD)
		return ff_fail(err, FF_E_INPUT, "%s: too short for a safetensors file", f->path);
	if ((code = read_all(f, 0, LEAD, lead, err)) < 0)
		return code;
	for (int i = LEAD; i-- > 0;)
		len = len << 8 | lead[i];
	if (len > MOST_HEADER)
		return ff_fail(err, FF_E_INPUT,
				"%s: no safetensors file: its header would be %" PRIu64 " bytes",
				f->path, len);
	if ((int64_t)len > st.st_size - LEAD)
		return ff_fail(err, FF_E_INPUT,
				"%s: ends in its header, of which %" PRId64 " of %" PRIu64
				" bytes are there",
				f->path, (int64_t)st.st_size - LEAD, len);
	text = malloc(len ? len : 1);
	if (!text)
		return ff_fail_memory(err);
	code = read_all(f, LEAD, len, text, err);
	if (code == FF_OK)
		code = ff_json_parse(f->path, text, len, a, &root, err);
	free(text);
	f->first = LEAD + (int64_t)len;
	return code < 0 ? code : parse_header(root, f->first, st.st_size, a, f, err);
}

int ff_tensors_open(
		const char *path, struct ff_arena *a, struct ff_tensors *ret, struct ff_error *err)
{
	struct ff_tensors f = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	int code;

	if (f.fd < 0)
		return fail_read(path, err);
	code = read_header(&f, a, err);
	if (code < 0)
		ff_tensors_close(&f);
	else
		*ret = f;
	return code;
}

void ff_tensors_close(struct ff_tensors *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

const struct ff_tensor *ff_tensors_find(const struct ff_tensors *t, const char *name)
{
	uint32_t i = ff_names_find(t->names, name);

	return i == FF_NONE ? NULL : &t->tensor[i];
}

const char *ff_tensors_note(const struct ff_tensors *t, const char *key)
{
	const struct ff_json *note = t->notes ? ff_json_get(t->notes, key) : NULL;

	return note ? note->text : NULL;
}

/* CRC-32 of `bytes` from `at`. */
static int sum_up(const struct ff_tensors *f, int64_t at, int64_t bytes, uint32_t *ret,
		struct ff_error *err)
{
	char chunk[CHUNK];
	uLong sum = crc32(0, NULL, 0);

	while (bytes) {
		size_t n = bytes < CHUNK ? (size_t)bytes : CHUNK;
		int code = read_all(f, at, n, chunk, err);

		if (code < 0)
			return code;
		sum = crc32(sum, (const Bytef *)chunk, (uInt)n);
		at += (int64_t)n;
		bytes -= (int64_t)n;
	}
	*ret = (uint32_t)sum;
	return FF_OK;
}

/* What the file says at `i`; little-endian. */
static int read_sum(const struct ff_tensors *f, const struct ff_tensor *sums, uint32_t i,
		uint32_t *ret, struct ff_error *err)
{
	uint8_t b[FF_SUM_BYTES];
	int code = read_all(f, sums->at + i * FF_SUM_BYTES, sizeof(b), b, err);

	if (code == FF_OK)
		*ret = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
		       (uint32_t)b[3] << 24;
	return code;
}

bool ff_tensors_is_summed(const struct ff_tensors *f)
{
	return ff_tensors_find(f, SUMS);
}

int ff_tensors_check(const struct ff_tensors *f, uint32_t *ret, struct ff_error *err)
{
	const struct ff_tensor *sums = ff_tensors_find(f, SUMS);
	uint32_t own = 0, said = 0;
	int code;

	if (!sums)
		return ff_fail(err, FF_E_INPUT, "%s: has no checksums", f->path);
	if (sums != &f->tensor[f->n - 1] || sums->elements != f->n ||
			sums->bytes != (int64_t)f->n * FF_SUM_BYTES)
		return ff_fail(err, FF_E_INPUT, "%s: %s is not as long as it has tensors", f->path,
				SUMS);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct ff_tensor *t = i ? &f->tensor[i - 1] : NULL;

		if ((code = sum_up(f, t ? t->at : 0, t ? t->bytes : f->first, &own, err)) < 0 ||
				(code = read_sum(f, sums, i, &said, err)) < 0)
			return code;
		if (own != said)
			return ff_fail(err, FF_E_INPUT,
					"%s: %s is not what was written: checksum "
					"%08" PRIx32 ", expected %08" PRIx32,
					f->path, t ? t->name : "its header", own, said);
	}
	return sum_up(f, sums->at, sums->bytes, ret, err);
}

bool ff_tensor_is_real(const struct ff_tensor *t)
{
	return type_of(t->type)->take != NULL;
}

int ff_tensors_read(const struct ff_tensors *f, const struct ff_tensor *t, float *whole,
		struct ff_error *err)
{
	const struct type *type = type_of(t->type);
	size_t step = (size_t)(CHUNK / type->bytes);
	double chunk[CHUNK / sizeof(double)]; /* double: aligned for every type */

	if (!type->take)
		return ff_fail(err, FF_E_INPUT, "%s: %s is %s, expected real numbers", f->path,
				t->name, t->type);
	for (size_t i = 0; i < (size_t)t->elements; i += step) {
		size_t left = (size_t)t->elements - i, n = left < step ? left : step;
		int code = read_all(f, t->at + (int64_t)i * type->bytes, n * (size_t)type->bytes,
				chunk, err);

		if (code < 0)
			return code;
		type->take(chunk, n, whole + i);
	}
	return FF_OK;
}

int ff_tensors_create(const char *path, struct ff_tensors_out *ret, struct ff_error *err)
{
	struct ff_tensors_out o = {.file = {.fd = -1}};
	int code = ff_file_open(path, &o.file, err);

	if (code < 0)
		return code;
	ff_out_init(&o.header);
	ff_out_object(&o.header, NULL);
	*ret = o;
	return FF_OK;
}

void ff_tensors_describe(struct ff_tensors_out *o, const char *const *keys,
		const char *const *texts, uint32_t n)
{
	ff_out_object(&o->header, "__metadata__");
	for (uint32_t i = 0; i < n; i++)
		ff_out_string(&o->header, keys[i], texts[i]);
	ff_out_close(&o->header);
}

/* Its sum is still that of nothing. */
static void keep_size(struct ff_tensors_out *o, int64_t bytes)
{
	struct ff_tensor_sum *grown = realloc(o->sums, (o->n_sums + 1) * sizeof(*grown));

	if (!grown) {
		o->header.failed = true;
		return;
	}
	o->sums = grown;
	o->sums[o->n_sums++] = (struct ff_tensor_sum){.left = bytes};
}

void ff_tensors_sum(struct ff_tensors_out *o)
{
	keep_size(o, 0); /* of the header */
}

void ff_tensors_declare(struct ff_tensors_out *o, const char *name, const char *type, uint32_t rank,
		const int32_t *shape)
{
	int64_t bytes = FF_SUM_BYTES;

	for (uint32_t i = 0; i < rank; i++)
		bytes *= shape[i];
	if (o->sums)
		keep_size(o, bytes);
	ff_out_object(&o->header, name);
	ff_out_string(&o->header, "dtype", type);
	ff_out_array(&o->header, "shape");
	for (uint32_t i = 0; i < rank; i++)
		ff_out_int(&o->header, NULL, shape[i]);
	ff_out_close(&o->header);
	ff_out_array(&o->header, "data_offsets");
	ff_out_int(&o->header, NULL, o->bytes);
	ff_out_int(&o->header, NULL, o->bytes + bytes);
	ff_out_close(&o->header);
	ff_out_close(&o->header);
	o->bytes += bytes;
}

/* Into the sums of those that `data` is of. */
static void sum_written(struct ff_tensors_out *o, const void *data, size_t bytes)
{
	const Bytef *at = data;

	while (o->sums && bytes && o->summed < o->n_sums) {
		struct ff_tensor_sum *s = &o->sums[o->summed];
		size_t n = (int64_t)bytes < s->left ? bytes : (size_t)s->left;

		s->crc = (uint32_t)crc32_z(s->crc, at, n);
		s->left -= (int64_t)n;
		at += n;
		bytes -= n;
		if (!s->left)
			o->summed++;
	}
}

static int put(struct ff_tensors_out *o, const void *data, size_t bytes, struct ff_error *err)
{
	sum_written(o, data, bytes);
	return ff_file_write(&o->file, data, bytes, err);
}

static int start(struct ff_tensors_out *o, struct ff_error *err)
{
	int32_t n = (int32_t)o->n_sums;
	uint8_t lead[LEAD];
	int code;

	if (o->sums)
		ff_tensors_declare(o, SUMS, "I32", 1, &n);
	ff_out_close(&o->header);
	while (!o->header.failed && o->header.len % 8)
		ff_out_printf(&o->header, " "); /* so that elements are aligned */
	if (o->header.failed)
		return ff_fail_memory(err);
	for (int i = 0; i < LEAD; i++)
		lead[i] = (uint8_t)((uint64_t)o->header.len >> (8 * i));
	if (o->sums)
		o->sums[0].left = LEAD + (int64_t)o->header.len;
	o->started = true;
	code = put(o, lead, sizeof(lead), err);
	return code < 0 ? code : put(o, o->header.text, o->header.len, err);
}

int ff_tensors_write(struct ff_tensors_out *o, const void *data, size_t bytes, struct ff_error *err)
{
	int code = o->started ? FF_OK : start(o, err);

	return code < 0 ? code : put(o, data, bytes, err);
}

/* But the last, which is their own. */
static int write_sums(struct ff_tensors_out *o, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; o->sums && i + 1 < o->n_sums && code == FF_OK; i++) {
		uint32_t crc = o->sums[i].crc;
		const uint8_t b[FF_SUM_BYTES] = {(uint8_t)crc, (uint8_t)(crc >> 8),
				(uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};

		code = ff_file_write(&o->file, b, sizeof(b), err);
	}
	return code;
}

int ff_tensors_commit(struct ff_tensors_out *o, struct ff_error *err)
{
	int code = o->started ? FF_OK : start(o, err);

	if (code == FF_OK)
		code = write_sums(o, err);
	return code < 0 ? code : ff_file_commit(&o->file, err);
}

void ff_tensors_drop(struct ff_tensors_out *o)
{
	ff_file_drop(&o->file);
	ff_out_finish(&o->header);
	free(o->sums);
	o->sums = NULL;
}
