/* JSON out: growing text, and where it goes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/json.h"
#include "json_text.h"

#define POURED (1 << 20) /* bytes that are written to a file at once */

void ff_out_init(struct ff_out *o)
{
	*o = (struct ff_out){.first = true};
}

void ff_out_finish(struct ff_out *o)
{
	if (!o)
		return;
	free(o->text);
	ff_out_init(o);
}

/* Brings to the file what is there. */
static void pour(struct ff_out *o)
{
	o->code = ff_file_write(o->file, o->text, o->len, o->err);
	o->failed = o->code < 0;
	o->len = 0;
}

/* Room for `n` more bytes and a NUL. */
static bool reserve(struct ff_out *o, size_t n)
{
	size_t cap = o->cap ? o->cap : 256;
	char *text;

	if (o->file && o->len >= POURED && !o->failed)
		pour(o);
	if (o->failed)
		return false;
	if (n >= SIZE_MAX / 4 - o->len) {
		o->failed = true;
		return false;
	}
	if (o->len + n < o->cap)
		return true;
	while (cap <= o->len + n)
		cap *= 2;
	text = realloc(o->text, cap);
	if (!text) {
		o->failed = true;
		return false;
	}
	o->text = text;
	o->cap = cap;
	return true;
}

static void put(struct ff_out *o, const char *text, size_t n)
{
	if (!reserve(o, n))
		return;
	memcpy(o->text + o->len, text, n);
	o->len += n;
	o->text[o->len] = '\0';
}

void ff_out_printf(struct ff_out *o, const char *fmt, ...)
{
	va_list args, again;
	int n;

	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	if (n < 0) {
		o->failed = true;
	} else if (reserve(o, (size_t)n)) {
		vsnprintf(o->text + o->len, (size_t)n + 1, fmt, again);
		o->len += (size_t)n;
	}
	va_end(again);
	va_end(args);
}

static void put_quoted(struct ff_out *o, const char *v)
{
	size_t n = strlen(v);

	put(o, "\"", 1);
	while (n) {
		unsigned char c = (unsigned char)*v;
		size_t used = ff_utf8_length(v, n);

		if (used == 0) {
			used = 1;
			put(o, "\xef\xbf\xbd", 3); /* U+FFFD: our own reader refuses less */
		} else if (c == '"' || c == '\\') {
			ff_out_printf(o, "\\%c", c);
		} else if (c == '\n') {
			put(o, "\\n", 2);
		} else if (c == '\t') {
			put(o, "\\t", 2);
		} else if (c < 0x20) {
			ff_out_printf(o, "\\u%04x", c);
		} else {
			put(o, v, used);
		}
		v += used;
		n -= used;
	}
	put(o, "\"", 1);
}

static void put_line(struct ff_out *o)
{
	put(o, "\n", 1);
	for (uint32_t i = 0; i < o->depth; i++)
		put(o, "  ", 2);
}

/* What stands before a value: comma, line and key. */
static void begin(struct ff_out *o, const char *key, bool plain)
{
	if (o->depth) {
		uint64_t level = UINT64_C(1) << (o->depth - 1);
		bool line = !o->flat && (!plain || o->objects & level);

		if (!o->first)
			put(o, line ? "," : ", ", line ? 1 : 2);
		if (line) {
			o->broken |= level;
			put_line(o);
		}
	}
	o->first = false;
	if (key) {
		put_quoted(o, key);
		put(o, ": ", 2);
	}
}

static void open_level(struct ff_out *o, const char *key, bool object)
{
	uint64_t level;

	begin(o, key, false);
	if (o->depth == FF_JSON_MAX_DEPTH) {
		o->failed = true; /* no reader of ours would take it */
		return;
	}
	level = UINT64_C(1) << o->depth++;
	o->broken &= ~level;
	o->objects = object ? o->objects | level : o->objects & ~level;
	o->first = true;
	put(o, object ? "{" : "[", 1);
}

void ff_out_object(struct ff_out *o, const char *key)
{
	open_level(o, key, true);
}

void ff_out_array(struct ff_out *o, const char *key)
{
	open_level(o, key, false);
}

void ff_out_close(struct ff_out *o)
{
	uint64_t level;

	if (o->depth == 0)
		return;
	level = UINT64_C(1) << --o->depth;
	if (o->broken & level)
		put_line(o);
	put(o, o->objects & level ? "}" : "]", 1);
	if (o->depth == 0)
		put(o, "\n", 1);
	o->first = false;
}

void ff_out_int(struct ff_out *o, const char *key, int64_t v)
{
	begin(o, key, true);
	ff_out_printf(o, "%lld", (long long)v);
}

void ff_out_u64(struct ff_out *o, const char *key, uint64_t v)
{
	begin(o, key, true);
	ff_out_printf(o, "%llu", (unsigned long long)v);
}

void ff_out_real(struct ff_out *o, const char *key, double v)
{
	char text[64];
	size_t head, tail;

	begin(o, key, true);
	if (!isfinite(v)) {
		put(o, "null", 4);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	/* Whatever the locale puts for the decimal point becomes a point. */
	head = tail = strspn(text, "-0123456789");
	while (text[tail] && !strchr("e0123456789", text[tail]))
		tail++;
	put(o, text, head);
	if (tail > head)
		put(o, ".", 1);
	put(o, text + tail, strlen(text + tail));
}

void ff_out_string(struct ff_out *o, const char *key, const char *v)
{
	begin(o, key, true);
	if (v)
		put_quoted(o, v);
	else
		put(o, "null", 4);
}

void ff_out_bool(struct ff_out *o, const char *key, bool v)
{
	begin(o, key, true);
	put(o, v ? "true" : "false", v ? 4 : 5);
}

int ff_out_save(const struct ff_out *o, const char *path, struct ff_error *err)
{
	struct ff_file f;
	int code;

	if (o->failed)
		return ff_fail_memory(err);
	if ((code = ff_file_open(path, &f, err)) < 0)
		return code;
	code = ff_file_write(&f, o->text, o->len, err);
	if (code == FF_OK)
		return ff_file_commit(&f, err);
	ff_file_drop(&f);
	return code;
}

int ff_out_begin_file(
		struct ff_out *o, const char *path, struct ff_file *file, struct ff_error *err)
{
	int code = ff_file_open(path, file, err);

	ff_out_init(o);
	o->file = code == FF_OK ? file : NULL;
	o->err = err;
	return code;
}

int ff_out_end_file(struct ff_out *o)
{
	int code;

	if (!o->failed)
		pour(o);
	code = o->code;
	if (code == FF_OK && o->failed)
		code = ff_fail_memory(o->err);
	if (code == FF_OK)
		code = ff_file_commit(o->file, o->err);
	else
		ff_file_drop(o->file);
	ff_out_finish(o);
	return code;
}
