/* Files of device models.  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_model.h"
#include "device/folders.h"

#define MOST_RATE 1e18
#define SHARE(most)                                                                                \
	{                                                                                          \
		"share", 1e-4, most                                                                \
	}
#define FLOOR                                                                                      \
	{                                                                                          \
		"floor_us", 0.01, 1000                                                             \
	}
#define BACKWARD(most)                                                                             \
	{                                                                                          \
		"backward", 1e-3, most                                                             \
	}
#define FORM(pass)                                                                                 \
	{pass "_pointwise", 1e-3, 100}, {pass "_window", 1e-3, 100}, {pass "_strided", 1e-3, 100}, \
	{                                                                                          \
		pass "_winograd", 0, 100                                                           \
	}

#define PRODUCT                                                                                    \
	FLOOR, {"memory", 1e-3, 1}, {"startup", 0, 1e5}, {"waves", 0, 1}, {"split_us", 0, 1000},   \
			{"unaligned", 1e-3, 1}, {"half_vectors", 1, 10, .preset = 1},              \
			{"batched", 1e-3, 1}, {"tile_256x128", 1e-3, 4},                           \
			{"tile_128x128", 1e-3, 4}, {"tile_128x64", 1e-3, 4},                       \
			{"tile_64x64", 1e-3, 4}, {"tile_128x32", 1e-3, 4},                         \
	{                                                                                          \
		"tile_32x32", 1e-3, 4                                                              \
	}

static const struct ff_parameter_row of_product[] = {PRODUCT, {"sustained", 1e-3, 1, .preset = 1},
		{"burst_us", 1, 1e9, .preset = 1500}, {NULL, 0, 0}};
static const struct ff_parameter_row of_convolution[] = {PRODUCT, FORM("forward"), FORM("image"),
		FORM("filter"), {"most", 1e-3, 1, .preset = 1}, {NULL, 0, 0}};
static const struct ff_parameter_row by_memory[] = {FLOOR, SHARE(1), BACKWARD(1), {NULL, 0, 0}};
static const struct ff_parameter_row of_attention[] = {FLOOR, SHARE(1), {"startup", 1e-3, 1e5},
		{"waves", 0, 1}, BACKWARD(100), {"block_us", 0, 1000}, {"narrow", 0, 4},
		{NULL, 0, 0}};
static const struct ff_parameter_row of_recurrent[] = {
		{"step_us", 0.01, 1000}, SHARE(10), BACKWARD(100), {NULL, 0, 0}};

const struct ff_parameter_row *const ff_model_parameters[FF_KERNEL_CLASS_COUNT] = {
		[FF_KERNEL_STREAM] = by_memory,
		[FF_KERNEL_SOFTMAX] = by_memory,
		[FF_KERNEL_NORM] = by_memory,
		[FF_KERNEL_POOL] = by_memory,
		[FF_KERNEL_LOOKUP] = by_memory,
		[FF_KERNEL_PRODUCT] = of_product,
		[FF_KERNEL_CONVOLUTION] = of_convolution,
		[FF_KERNEL_ATTENTION] = of_attention,
		[FF_KERNEL_RECURRENT] = of_recurrent,
};

static const bool is_typed[FF_KERNEL_CLASS_COUNT] = {
#define TYPED(e, name, typed) [e] = (typed),
		FF_KERNEL_CLASSES(TYPED)
#undef TYPED
};

static int read_parameters(const struct ff_json *v, const struct ff_parameter_row *row, double *ret,
		struct ff_error *err)
{
	const struct ff_json *all;
	const char *keys[FF_MODEL_PARAMETERS + 1] = {NULL};
	int code = ff_json_need(v, "parameters", FF_JSON_OBJECT, &all, err);

	for (uint32_t i = 0; row[i].name && code == FF_OK; i++) {
		keys[i] = row[i].name;
		ret[i] = row[i].preset;
		if (!(row[i].preset > 0) || ff_json_get(all, row[i].name))
			code = ff_json_real(all, row[i].name, row[i].min, row[i].max, &ret[i], err);
	}
	return code == FF_OK ? ff_json_only(all, keys, err) : code;
}

/* "measured", or "inferred from" another kind. */
static int read_basis(
		const struct ff_json *v, const char *key, bool *inferred, struct ff_error *err)
{
	static const char prefix[] = "inferred from ";
	const char *basis;
	int code = ff_json_string(v, key, &basis, err);

	if (code < 0)
		return code;
	*inferred = strcmp(basis, "measured") != 0;
	if (*inferred && strncmp(basis, prefix, strlen(prefix)) != 0)
		return ff_json_fail(ff_json_get(v, key), err,
				"expected \"measured\" or \"inferred from\" something");
	return FF_OK;
}

static int read_class(const struct ff_json *v, enum ff_kernel_class class,
		struct ff_model_class *ret, struct ff_error *err)
{
	static const char *const keys[] = {
			"basis", "source", "rows", "error", "backward", "parameters", NULL};
	int code = v->type == FF_JSON_OBJECT ? ff_json_only(v, keys, err)
					     : ff_json_fail(v, err, "expected an object");

	if (code == FF_OK)
		code = read_basis(v, "basis", &ret->inferred, err);
	if (code == FF_OK)
		ret->back_inferred = ret->inferred;
	if (code == FF_OK && ff_json_get(v, "backward"))
		code = read_basis(v, "backward", &ret->back_inferred, err);
	return code == FF_OK ? read_parameters(v, ff_model_parameters[class], ret->v, err) : code;
}

/* "product.float32", or "stream" of both types. */
static const struct ff_json *find_class(
		const struct ff_json *all, uint32_t class, enum ff_dtype type)
{
	char key[64];

	snprintf(key, sizeof(key), is_typed[class] ? "%s.%s" : "%s",
			ff_kernel_class_name((enum ff_kernel_class) class), ff_dtype_name(type));
	return ff_json_get(all, key);
}

static int check_keys(const struct ff_json *all, struct ff_error *err)
{
	for (uint32_t i = 0; i < all->n; i++) {
		bool known = false;

		for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT; c++)
			known = known || find_class(all, c, FF_F32) == &all->child[i] ||
				find_class(all, c, FF_BF16) == &all->child[i];
		if (!known)
			return ff_json_fail(
					&all->child[i], err, "there is no such class of kernels");
	}
	return FF_OK;
}

/* Without tensor cores kernels of bfloat16 are those of float32. */
static int read_classes(const struct ff_json *root, struct ff_device_model *m, struct ff_error *err)
{
	const struct ff_json *all;
	int code = ff_json_need(root, "classes", FF_JSON_OBJECT, &all, err);

	if (code == FF_OK)
		code = check_keys(all, err);
	for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT && code == FF_OK; c++) {
		const struct ff_json *plain = find_class(all, c, FF_F32);
		const struct ff_json *shorter = find_class(all, c, FF_BF16);

		if (!plain)
			return ff_json_fail(all, err, "the class \"%s\" is missing%s",
					ff_kernel_class_name((enum ff_kernel_class)c),
					is_typed[c] ? " in float32" : "");
		if (!shorter && m->flops_per_s[1] > m->flops_per_s[0])
			return ff_json_fail(all, err, "the class \"%s\" is missing in bfloat16",
					ff_kernel_class_name((enum ff_kernel_class)c));
		code = read_class(plain, (enum ff_kernel_class)c, &m->class[c][0], err);
		if (code == FF_OK)
			code = read_class(shorter ? shorter : plain, (enum ff_kernel_class)c,
					&m->class[c][1], err);
	}
	return code;
}

static int read_root(const struct ff_json *root, struct ff_arena *a, struct ff_device_model *ret,
		struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "name", "source", "multiprocessors",
			"flops_per_s", "bfloat16_flops_per_s", "tf32_flops_per_s", "ampere_share",
			"memory_bytes_per_s", "classes", NULL};
	struct ff_device_model m = {0};
	const char *text;
	int code = ff_json_format(root, "ffsoap-device-model", 1, err);

	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = ff_json_string(root, "source", &text, err);
	if (code == FF_OK)
		code = ff_json_string(root, "name", &text, err);
	if (code < 0)
		return code;
	m.name = ff_arena_strdup(a, text);
	if (!m.name)
		return ff_fail_memory(err);
	code = ff_json_real(root, "multiprocessors", 1, 1e6, &m.multiprocessors, err);
	if (code == FF_OK)
		code = ff_json_real(root, "flops_per_s", 1e6, MOST_RATE, &m.flops_per_s[0], err);
	m.flops_per_s[1] = m.flops_per_s[0];
	if (code == FF_OK && ff_json_get(root, "bfloat16_flops_per_s"))
		code = ff_json_real(root, "bfloat16_flops_per_s", 1e6, MOST_RATE, &m.flops_per_s[1],
				err);
	if (code == FF_OK && ff_json_get(root, "tf32_flops_per_s"))
		code = ff_json_real(
				root, "tf32_flops_per_s", 1e6, MOST_RATE, &m.tf32_flops_per_s, err);
	m.ampere_share = 1;
	if (code == FF_OK && ff_json_get(root, "ampere_share"))
		code = ff_json_real(root, "ampere_share", 1e-3, 1, &m.ampere_share, err);
	if (code == FF_OK)
		code = ff_json_real(root, "memory_bytes_per_s", 1e6, MOST_RATE,
				&m.memory_bytes_per_s, err);
	if (code == FF_OK)
		code = read_classes(root, &m, err);
	if (code == FF_OK)
		*ret = m;
	return code;
}

int ff_device_model_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_device_model *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	int code;

	ff_arena_init(&scratch);
	code = ff_json_parse(file, text, len, &scratch, &root, err);
	if (code == FF_OK)
		code = read_root(root, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

int ff_device_model_load(const char *path, struct ff_arena *a, struct ff_device_model *ret,
		struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	int code;

	ff_arena_init(&scratch);
	code = ff_json_load(path, &scratch, &root, err);
	if (code == FF_OK)
		code = read_root(root, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

/* The first file of `folder`, by name, that is called `name`, or that and a dash and more: of a
 * "P100" the model may be "P100-16GB".  A name is no path.  *ret NULL: there is none. */
static int find_in(const char *folder, const char *name, struct ff_arena *a, const char **ret,
		struct ff_error *err)
{
	const char *models = ff_arena_printf(a, "%s/models", folder);
	struct dirent **entry;
	size_t length = strlen(name);
	int n, code = models ? FF_OK : ff_fail_memory(err);

	*ret = NULL;
	n = models ? scandir(models, &entry, NULL, alphasort) : -1;
	for (int i = 0; i < n; i++) {
		const char *file = entry[i]->d_name, *behind = file + length;
		bool exact = !strncmp(file, name, length) && !strcmp(behind, ".json");
		bool longer = !*ret && !strncmp(file, name, length) && *behind == '-';

		if (code == FF_OK && (exact || longer)) {
			*ret = ff_arena_printf(a, "%s/%s", models, file);
			code = *ret ? FF_OK : ff_fail_memory(err);
		}
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	return code;
}

static int find_file(const char *name, struct ff_arena *a, const char **ret, struct ff_error *err)
{
	int code = FF_OK;

	*ret = NULL;
	for (uint32_t i = 0; i < FF_FOLDERS && !*ret && code == FF_OK; i++)
		if (ff_folder(i))
			code = find_in(ff_folder(i), name, a, ret, err);
	return code;
}

int ff_device_model_find(const struct ff_device_kind *kind, struct ff_arena *a,
		const struct ff_device_model **ret, struct ff_error *err)
{
	struct ff_device_model *m;
	const char *path;
	int code = find_file(kind->model ? kind->model : kind->name, a, &path, err);

	*ret = NULL;
	if (code == FF_OK && !path && kind->model)
		return ff_fail(err, FF_E_INPUT,
				"%sthere is no model \"%.100s\" of devices of kind \"%.100s\" in "
				"graphs/machines/models/ or $FF_MACHINES/models",
				kind->model_place ? kind->model_place : "", kind->model,
				kind->name);
	if (code < 0 || !path)
		return code;
	m = ff_arena_array(a, 1, sizeof(*m));
	if (!m)
		return ff_fail_memory(err);
	code = ff_device_model_load(path, a, m, err);
	if (code == FF_OK)
		*ret = m;
	return code;
}
