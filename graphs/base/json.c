/* JSON in: text to a tree in an arena, and typed access that knows its place.
 * The one file that knows cJSON.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ff/nearest.h"
#include "json_text.h"

#define PLACE_BYTES 160
#define EXACT 9007199254740992 /* 2^53: a double holds every whole number up to here */

/* The place of `at` as "nodes[3].stride", built from its end; a place too long
 * for the buffer loses its beginning.  Returns where it starts in `buf`. */
static const char *place(const struct ff_json *at, char buf[PLACE_BYTES])
{
	size_t start = PLACE_BYTES - 1;

	buf[start] = '\0';
	for (; at->parent; at = at->parent) {
		char index[16];
		const char *step = at->key;
		bool dot;
		size_t n;

		if (!step) {
			snprintf(index, sizeof(index), "[%u]", at->index);
			step = index;
		}
		dot = buf[start] != '\0' && buf[start] != '[';
		n = strlen(step);
		if (n + dot + 3 > start) {
			start -= 3;
			memcpy(buf + start, "...", 3);
			return buf + start;
		}
		if (dot)
			buf[--start] = '.';
		start -= n;
		memcpy(buf + start, step, n);
	}
	return buf + start;
}

void ff_json_error(const struct ff_json *at, struct ff_error *err, const char *fmt, ...)
{
	char sentence[FF_ERROR_TEXT], buf[PLACE_BYTES];
	va_list args;
	const char *where;
	const struct ff_json *root = at;

	va_start(args, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, args);
	va_end(args);
	where = place(at, buf);
	while (root->parent)
		root = root->parent;
	ff_error_write(err, FF_E_INPUT, "%s: %s%s%s", root->file, where, *where ? ": " : "",
			sentence);
}

static int by_key(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static int check_unique(const struct ff_json *object, const struct ff_json *member,
		struct ff_arena *a, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(a);
	const char **key = ff_arena_array(a, object->n, sizeof(*key));
	int code = FF_OK;

	if (!key)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < object->n; i++)
		key[i] = member[i].key;
	qsort(key, object->n, sizeof(*key), by_key);
	for (uint32_t i = 1; i < object->n && code == FF_OK; i++)
		if (strcmp(key[i - 1], key[i]) == 0)
			code = ff_json_fail(object, err, "\"%s\" stands twice", key[i]);
	ff_arena_rewind(a, mark);
	return code;
}

static int convert(const cJSON *from, struct ff_arena *a, struct ff_json *to, struct ff_error *err);

static int convert_children(
		const cJSON *from, struct ff_arena *a, struct ff_json *to, struct ff_error *err)
{
	const cJSON *c;
	struct ff_json *child;
	uint32_t i = 0;
	int code;

	for (c = from->child; c; c = c->next)
		to->n++;
	child = ff_arena_array(a, to->n, sizeof(*child));
	if (!child)
		return ff_fail_memory(err);
	for (c = from->child; c; c = c->next, i++) {
		child[i].index = i;
		child[i].parent = to;
		if (c->string && !(child[i].key = ff_arena_strdup(a, c->string)))
			return ff_fail_memory(err);
	}
	to->child = child;
	code = to->type == FF_JSON_OBJECT ? check_unique(to, child, a, err) : FF_OK;
	for (i = 0, c = from->child; c && code == FF_OK; c = c->next, i++)
		code = convert(c, a, &child[i], err);
	return code;
}

/* Depth is bounded: the text was checked. */
static int convert(const cJSON *from, struct ff_arena *a, struct ff_json *to, struct ff_error *err)
{
	if (cJSON_IsNumber(from)) {
		to->type = FF_JSON_NUMBER;
		to->number = from->valuedouble;
		if (!isfinite(to->number))
			return ff_json_fail(to, err, "expected a number that a double can hold");
	} else if (cJSON_IsString(from)) {
		to->type = FF_JSON_STRING;
		to->text = ff_arena_strdup(a, from->valuestring);
		if (!to->text)
			return ff_fail_memory(err);
	} else if (cJSON_IsBool(from)) {
		to->type = FF_JSON_BOOL;
		to->number = cJSON_IsTrue(from);
	} else if (cJSON_IsArray(from) || cJSON_IsObject(from)) {
		to->type = cJSON_IsArray(from) ? FF_JSON_ARRAY : FF_JSON_OBJECT;
		return convert_children(from, a, to, err);
	} else {
		to->type = FF_JSON_NULL;
	}
	return FF_OK;
}

static int too_large(const char *file, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT, "%s: expected a file of at most 1 GiB", file);
}

int ff_json_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		const struct ff_json **ret, struct ff_error *err)
{
	int code;
	cJSON *tree;
	struct ff_json *root;

	if (len > FF_JSON_MAX_BYTES)
		return too_large(file, err);
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
		text += 3;
		len -= 3;
	}
	code = ff_json_check_text(file, text, len, err);
	if (code < 0)
		return code;
	tree = cJSON_ParseWithLengthOpts(text, len, NULL, 0);
	root = ff_arena_alloc(a, sizeof(*root));
	if (root)
		root->file = ff_arena_strdup(a, file);
	if (!tree || !root || !root->file)
		code = ff_fail_memory(err);
	else
		code = convert(tree, a, root, err);
	cJSON_Delete(tree);
	if (code == FF_OK)
		*ret = root;
	return code;
}

static int read_failed(const char *path, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
}

/* Reads `fd` to its end, whatever size it claimed; `*text` is malloc'ed. */
static int read_all(int fd, const char *path, size_t guess, char **text, size_t *len,
		struct ff_error *err)
{
	size_t cap = guess + 1, n = 0;
	char *buf = malloc(cap);

	while (buf) {
		ssize_t got = read(fd, buf + n, cap - n);

		if (got == 0) {
			*text = buf;
			*len = n;
			return FF_OK;
		}
		if ((got < 0 && errno != EINTR) || n > FF_JSON_MAX_BYTES) {
			free(buf);
			return got < 0 ? read_failed(path, err) : too_large(path, err);
		}
		n += got > 0 ? (size_t)got : 0;
		if (n == cap) {
			char *more = realloc(buf, cap *= 2);

			if (!more)
				free(buf);
			buf = more;
		}
	}
	return ff_fail_memory(err);
}

static int read_file(const char *path, char **text, size_t *len, struct ff_error *err)
{
	struct stat st;
	bool piped = strcmp(path, "-") == 0;
	int fd = piped ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
	int code;

	if (fd < 0)
		return read_failed(path, err);
	if (fstat(fd, &st) < 0)
		code = read_failed(path, err);
	else if (S_ISDIR(st.st_mode))
		code = ff_fail(err, FF_E_INPUT, "%s: expected a JSON file, not a folder", path);
	else if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		code = ff_fail(err, FF_E_INPUT, "%s: expected a JSON file, not a device", path);
	else if (st.st_size > (off_t)FF_JSON_MAX_BYTES)
		code = too_large(path, err);
	else
		code = read_all(fd, path, S_ISREG(st.st_mode) ? (size_t)st.st_size : 65535, text,
				len, err);
	close(fd);
	return code;
}

int ff_json_load(const char *path, struct ff_arena *a, const struct ff_json **ret,
		struct ff_error *err)
{
	char *text = NULL;
	size_t len = 0;
	int code = read_file(path, &text, &len, err);

	if (code < 0)
		return code;
	code = ff_json_parse(path, text, len, a, ret, err);
	free(text);
	return code;
}

static const char *type_name(enum ff_json_type type)
{
	static const char *const name[] = {[FF_JSON_NULL] = "null",
			[FF_JSON_BOOL] = "true or false",
			[FF_JSON_NUMBER] = "a number",
			[FF_JSON_STRING] = "a string",
			[FF_JSON_ARRAY] = "an array",
			[FF_JSON_OBJECT] = "an object"};

	return name[type];
}

static int expect(const struct ff_json *value, enum ff_json_type type, struct ff_error *err)
{
	if (value->type == type)
		return FF_OK;
	return ff_json_fail(
			value, err, "expected %s, not %s", type_name(type), type_name(value->type));
}

const struct ff_json *ff_json_get(const struct ff_json *object, const char *key)
{
	if (object->type != FF_JSON_OBJECT)
		return NULL;
	for (uint32_t i = 0; i < object->n; i++)
		if (strcmp(object->child[i].key, key) == 0)
			return &object->child[i];
	return NULL;
}

static int need(const struct ff_json *object, const char *key, const struct ff_json **ret,
		struct ff_error *err)
{
	int code = expect(object, FF_JSON_OBJECT, err);
	const struct ff_json *value;

	if (code < 0)
		return code;
	value = ff_json_get(object, key);
	if (!value)
		return ff_json_fail(object, err, "\"%s\" is missing", key);
	*ret = value;
	return FF_OK;
}

int ff_json_need(const struct ff_json *object, const char *key, enum ff_json_type type,
		const struct ff_json **ret, struct ff_error *err)
{
	const struct ff_json *value = NULL;
	int code = need(object, key, &value, err);

	if (code == FF_OK)
		code = expect(value, type, err);
	if (code == FF_OK)
		*ret = value;
	return code;
}

int ff_json_as_int(const struct ff_json *value, int64_t min, int64_t max, int64_t *ret,
		struct ff_error *err)
{
	char found[40];

	if (min < -EXACT)
		min = -EXACT;
	if (max > EXACT)
		max = EXACT;
	if (value->type != FF_JSON_NUMBER)
		snprintf(found, sizeof(found), "%s", type_name(value->type));
	else if (value->number >= (double)min && value->number <= (double)max &&
			value->number == floor(value->number))
		return *ret = (int64_t)value->number, FF_OK;
	else
		snprintf(found, sizeof(found), "%.15g", value->number);
	if (max == EXACT)
		return ff_json_fail(value, err, "expected a whole number of at least %lld, not %s",
				(long long)min, found);
	return ff_json_fail(value, err, "expected a whole number from %lld to %lld, not %s",
			(long long)min, (long long)max, found);
}

int ff_json_int(const struct ff_json *object, const char *key, int64_t min, int64_t max,
		int64_t *ret, struct ff_error *err)
{
	const struct ff_json *value = NULL;
	int code = need(object, key, &value, err);

	return code < 0 ? code : ff_json_as_int(value, min, max, ret, err);
}

int ff_json_real(const struct ff_json *object, const char *key, double min, double max, double *ret,
		struct ff_error *err)
{
	const struct ff_json *value = NULL;
	int code = ff_json_need(object, key, FF_JSON_NUMBER, &value, err);

	if (code < 0)
		return code;
	if (!(value->number >= min && value->number <= max))
		return ff_json_fail(value, err, "expected a number from %g to %g, not %.15g", min,
				max, value->number);
	*ret = value->number;
	return FF_OK;
}

bool ff_json_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

int ff_json_string(const struct ff_json *object, const char *key, const char **ret,
		struct ff_error *err)
{
	const struct ff_json *value = NULL;
	int code = ff_json_need(object, key, FF_JSON_STRING, &value, err);

	if (code == FF_OK && !ff_json_printable(value->text))
		code = ff_json_fail(value, err, "expected a string without control characters");
	if (code == FF_OK)
		*ret = value->text;
	return code;
}

int ff_json_bool(const struct ff_json *object, const char *key, bool *ret, struct ff_error *err)
{
	const struct ff_json *value = NULL;
	int code = ff_json_need(object, key, FF_JSON_BOOL, &value, err);

	if (code == FF_OK)
		*ret = value->number != 0;
	return code;
}

int ff_json_only(const struct ff_json *object, const char *const *keys, struct ff_error *err)
{
	int code = expect(object, FF_JSON_OBJECT, err);

	for (uint32_t i = 0; i < object->n && code == FF_OK; i++) {
		const char *const *k = keys;
		struct ff_nearest near;
		char known[256] = "";

		while (*k && strcmp(*k, object->child[i].key) != 0)
			k++;
		if (*k)
			continue;
		ff_nearest_init(&near, object->child[i].key);
		for (size_t n = 0; *keys; keys++) {
			ff_nearest_try(&near, *keys);
			if (n < sizeof(known))
				n += (size_t)snprintf(known + n, sizeof(known) - n, "%s\"%s\"",
						n ? ", " : "", *keys);
		}
		code = ff_json_fail(object, err, "\"%.64s\" is not known here, only %s%s",
				object->child[i].key, *known ? known : "nothing",
				ff_nearest_hint(&near));
	}
	return code;
}

int ff_json_format(
		const struct ff_json *root, const char *format, int version, struct ff_error *err)
{
	const char *found = NULL;
	int64_t number = 0;
	int code = ff_json_string(root, "format", &found, err);

	if (code < 0)
		return code;
	if (strcmp(found, format) != 0)
		return ff_json_fail(ff_json_get(root, "format"), err,
				"expected \"%s\", not \"%.64s\"", format, found);
	code = ff_json_int(root, "version", 0, INT32_MAX, &number, err);
	if (code < 0)
		return code;
	if (number != version)
		return ff_json_fail(ff_json_get(root, "version"), err,
				"expected %d, the version this program reads, not %lld", version,
				(long long)number);
	return FF_OK;
}
