/* ONNX files: unpacking, and tensors as numbers.  SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ff/dtype.h"
#include "values.h"

#define OLDEST 11 /* opset */

/* A file in memory, read only. */
struct mapped {
	const uint8_t *data;
	size_t size;
};

static int map_file(const char *path, struct mapped *ret, struct ff_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *data = MAP_FAILED;

	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd >= 0)
			close(fd);
		return ff_fail(err, FF_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
	}
	if (S_ISREG(st.st_mode) && st.st_size > 0)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return ff_fail(err, FF_E_INPUT, "%s: expected a file that is not empty", path);
	*ret = (struct mapped){data, (size_t)st.st_size};
	return FF_OK;
}

static void unmap(const struct mapped *m)
{
	munmap((void *)(uintptr_t)m->data, m->size);
}

static int check_opset(struct ff_import *im, const Onnx__ModelProto *m)
{
	im->opset = 0;
	for (size_t i = 0; i < m->n_opset_import; i++) {
		const Onnx__OperatorSetIdProto *o = m->opset_import[i];

		if (!o->domain || !o->domain[0] || !strcmp(o->domain, "ai.onnx"))
			im->opset = o->version;
	}
	if (im->opset < OLDEST)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: it is of opset %" PRId64
				", expected %d or later (torch.onnx.export "
				"has opset_version)",
				im->opt->model, im->opset, OLDEST);
	return FF_OK;
}

int ff_onnx_load(struct ff_import *im, Onnx__ModelProto **ret)
{
	struct mapped file;
	Onnx__ModelProto *m;
	int code = map_file(im->opt->model, &file, im->err);

	if (code < 0)
		return code;
	m = onnx__model_proto__unpack(NULL, file.size, file.data);
	unmap(&file);
	if (!m || !m->graph || !m->n_opset_import) {
		ff_onnx_free(m);
		return ff_fail(im->err, FF_E_INPUT, "%s: it is no ONNX model", im->opt->model);
	}
	code = check_opset(im, m);
	if (code < 0)
		ff_onnx_free(m);
	else
		*ret = m;
	return code;
}

void ff_onnx_free(Onnx__ModelProto *m)
{
	if (m)
		onnx__model_proto__free_unpacked(m, NULL);
}

/* IEEE 754 binary16 by way of its parts. */
static float half(uint16_t x)
{
	uint32_t sign = (uint32_t)(x >> 15) << 31, exponent = x >> 10 & 31, fraction = x & 1023,
		 bits;
	float f;

	if (!exponent) {
		f = (float)fraction * 0x1p-24f;
		return sign ? -f : f;
	}
	bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static int64_t take_f32(const uint8_t *p, float *f)
{
	memcpy(f, p, sizeof(*f));
	return 0;
}

static int64_t take_f64(const uint8_t *p, float *f)
{
	double d;

	memcpy(&d, p, sizeof(d));
	*f = (float)d;
	return 0;
}

static int64_t take_f16(const uint8_t *p, float *f)
{
	uint16_t x;

	memcpy(&x, p, sizeof(x));
	*f = half(x);
	return 0;
}

static int64_t take_bf16(const uint8_t *p, float *f)
{
	uint16_t x;

	memcpy(&x, p, sizeof(x));
	*f = ff_bf16_to_f32(x);
	return 0;
}

#define TAKE_WHOLE(name, type)                                                                     \
	static int64_t name(const uint8_t *p, float *f)                                            \
	{                                                                                          \
		type x;                                                                            \
                                                                                                   \
		(void)f;                                                                           \
		memcpy(&x, p, sizeof(x));                                                          \
		return (int64_t)x;                                                                 \
	}
TAKE_WHOLE(take_i64, int64_t)
TAKE_WHOLE(take_i32, int32_t)
TAKE_WHOLE(take_i16, int16_t)
TAKE_WHOLE(take_i8, int8_t)
TAKE_WHOLE(take_u8, uint8_t)
TAKE_WHOLE(take_u16, uint16_t)
TAKE_WHOLE(take_u32, uint32_t)

/* Element types: bytes in raw data, and how one is read; whole numbers are returned, others
 * go to *f. */
static const struct type {
	int32_t id;
	bool whole;
	size_t bytes;
	int64_t (*take)(const uint8_t *p, float *f);
} types[] = {
		{ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, false, 4, take_f32},
		{ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, false, 8, take_f64},
		{ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, false, 2, take_f16},
		{ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16, false, 2, take_bf16},
		{ONNX__TENSOR_PROTO__DATA_TYPE__INT64, true, 8, take_i64},
		{ONNX__TENSOR_PROTO__DATA_TYPE__INT32, true, 4, take_i32},
		{ONNX__TENSOR_PROTO__DATA_TYPE__INT16, true, 2, take_i16},
		{ONNX__TENSOR_PROTO__DATA_TYPE__INT8, true, 1, take_i8},
		{ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, true, 1, take_u8},
		{ONNX__TENSOR_PROTO__DATA_TYPE__UINT16, true, 2, take_u16},
		{ONNX__TENSOR_PROTO__DATA_TYPE__UINT32, true, 4, take_u32},
		{ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, true, 1, take_u8},
};

static const struct type *type_of(int32_t id)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].id == id)
			return &types[i];
	return NULL;
}

static const char *external(const Onnx__TensorProto *t, const char *key)
{
	for (size_t i = 0; i < t->n_external_data; i++)
		if (t->external_data[i]->key && !strcmp(t->external_data[i]->key, key))
			return t->external_data[i]->value;
	return NULL;
}

static void take_all(const struct type *type, const uint8_t *data, struct ff_constant *ret)
{
	for (int64_t k = 0; k < ret->n; k++) {
		float f;
		int64_t i = type->take(data + (size_t)k * type->bytes, &f);

		if (type->whole)
			ret->i[k] = i;
		else
			ret->f[k] = f;
	}
}

/* The file beside the model that has the tensor's elements; NULL: none that we take, or no
 * memory. */
static const char *external_path(struct ff_import *im, const Onnx__TensorProto *t)
{
	const char *place = external(t, "location"), *slash = strrchr(im->opt->model, '/');

	if (!place || place[0] == '/' || strstr(place, ".."))
		return NULL;
	return ff_arena_printf(&im->scratch, "%.*s%s",
			slash ? (int)(slash + 1 - im->opt->model) : 0, im->opt->model, place);
}

int ff_onnx_spare(struct ff_import *im)
{
	const char *last = NULL; /* most models have one */
	int code = FF_OK;

	for (size_t i = 0; i < im->graph->n_initializer && code == FF_OK; i++) {
		const Onnx__TensorProto *t = im->graph->initializer[i];
		const struct ff_path in = {.name = "MODEL's data",
				.path = t->n_external_data ? external_path(im, t) : NULL};

		if (!in.path || (last && !strcmp(last, in.path)))
			continue;
		last = in.path;
		code = ff_paths_apart(im->opt->out, im->opt->n_out, &in, 1, im->err);
	}
	return code;
}

/* Elements in a file beside the model: mapped before there is room for them. */
static int take_external(struct ff_import *im, const Onnx__TensorProto *t, const struct type *type,
		struct ff_constant *ret)
{
	const char *at = external(t, "offset"), *path = external_path(im, t);
	uint64_t offset = at ? strtoull(at, NULL, 10) : 0, bytes = (uint64_t)ret->n * type->bytes;
	struct mapped file;
	int code;

	if (!path)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: tensor %s: expected its data in a file beside the model",
				im->opt->model, t->name);
	if ((code = map_file(path, &file, im->err)) < 0)
		return code;
	if (offset > file.size || bytes > file.size - offset)
		code = ff_fail(im->err, FF_E_INPUT, "%s: too short for tensor %s of %s", path,
				t->name, im->opt->model);
	else if ((code = ff_constant_alloc(im, ret)) == FF_OK)
		take_all(type, file.data + offset, ret);
	unmap(&file);
	return code;
}

/* Elements in the fields of their own that small tensors may have. */
static void take_fields(const Onnx__TensorProto *t, struct ff_constant *ret)
{
	size_t n = (size_t)ret->n;

	if (t->n_float_data == n && !ret->whole && t->n_float_data)
		memcpy(ret->f, t->float_data, n * sizeof(*ret->f));
	else if (t->n_int64_data == n && ret->whole && t->n_int64_data)
		memcpy(ret->i, t->int64_data, n * sizeof(*ret->i));
	else if (t->n_double_data == n && !ret->whole)
		for (size_t k = 0; k < n; k++)
			ret->f[k] = (float)t->double_data[k];
	else if (t->n_int32_data == n && ret->whole)
		for (size_t k = 0; k < n; k++)
			ret->i[k] = t->int32_data[k];
	else if (t->n_int32_data == n) /* two bytes each */
		for (size_t k = 0; k < n; k++)
			ret->f[k] = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16
						    ? ff_bf16_to_f32((uint16_t)t->int32_data[k])
						    : half((uint16_t)t->int32_data[k]);
}

static bool has_all(const Onnx__TensorProto *t, const struct type *type, int64_t n)
{
	size_t count = (size_t)n;

	if (t->has_raw_data)
		return t->raw_data.len == count * type->bytes;
	return t->n_int32_data == count ||
	       (type->whole ? t->n_int64_data == count
			    : t->n_float_data == count || t->n_double_data == count);
}

static int read_shape(struct ff_import *im, const Onnx__TensorProto *t, struct ff_constant *ret)
{
	if (t->n_dims > FF_IMPORT_RANK)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: tensor %s has %zu axes, expected at most %d", im->opt->model,
				t->name, t->n_dims, FF_IMPORT_RANK);
	ret->rank = (uint32_t)t->n_dims;
	for (size_t k = 0; k < t->n_dims; k++)
		ret->shape[k] = t->dims[k];
	if (!ff_constant_measure(ret, FF_CONSTANT_MOST))
		return ff_fail(im->err, FF_E_INPUT, "%s: tensor %s has a shape that is none",
				im->opt->model, t->name);
	return FF_OK;
}

int ff_onnx_tensor(struct ff_import *im, const Onnx__TensorProto *t, struct ff_constant *ret)
{
	const struct type *type = type_of(t->data_type);
	struct ff_constant c = {.whole = type && type->whole};
	bool far = t->has_data_location &&
		   t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
	int code;

	if (!type)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: tensor %s has elements of a type (%d) that "
				"is not supported",
				im->opt->model, t->name, t->data_type);
	if ((code = read_shape(im, t, &c)) < 0)
		return code;
	if (!far && !has_all(t, type, c.n)) /* else a damaged file's shape would become memory */
		return ff_fail(im->err, FF_E_INPUT,
				"%s: tensor %s has not as much data as its shape says",
				im->opt->model, t->name);
	if (far)
		code = take_external(im, t, type, &c);
	else if ((code = ff_constant_alloc(im, &c)) == FF_OK && t->has_raw_data)
		take_all(type, t->raw_data.data, &c);
	else if (code == FF_OK)
		take_fields(t, &c);
	if (code == FF_OK)
		*ret = c;
	return code;
}
