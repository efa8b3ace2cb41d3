/* JSON in and out.  Reading gives a tree in an arena whose nodes know their
 * place, so that every later complaint can name file and place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_JSON_H
#define FF_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/error.h"
#include "ff/file.h"

enum ff_json_type {
	FF_JSON_NULL,
	FF_JSON_BOOL,
	FF_JSON_NUMBER,
	FF_JSON_STRING,
	FF_JSON_ARRAY,
	FF_JSON_OBJECT,
};

struct ff_json {
	enum ff_json_type type;
	const char *key;              /* in an object; else NULL */
	const char *text;             /* FF_JSON_STRING */
	double number;                /* FF_JSON_NUMBER; FF_JSON_BOOL: 0 or 1 */
	uint32_t n;                   /* children */
	uint32_t index;               /* position in the parent */
	const struct ff_json *child;  /* n consecutive children */
	const struct ff_json *parent; /* NULL at the root */
	const char *file;             /* set at the root */
};

/* Parses `len` bytes.  `file` is only the name that errors carry.  Refuses
 * nesting deeper than 64, duplicate keys, trailing text and invalid UTF-8.
 * All memory from `a`.  FF_E_INPUT with file:line:column on bad text. */
int ff_json_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		const struct ff_json **ret, struct ff_error *err);
/* Reads and parses a file.  A file that cannot be read is FF_E_INPUT. */
int ff_json_load(const char *path, struct ff_arena *a, const struct ff_json **ret,
		struct ff_error *err);

/* "file: nodes[3].stride: " + the sentence, as FF_E_INPUT. */
void ff_json_error(const struct ff_json *at, struct ff_error *err, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
#define ff_json_fail(at, err, ...) (ff_json_error(at, err, __VA_ARGS__), ff_error_code(FF_E_INPUT))

/* The member, or NULL. */
const struct ff_json *ff_json_get(const struct ff_json *object, const char *key);
/* The member, or FF_E_INPUT that names the missing key. */
int ff_json_need(const struct ff_json *object, const char *key, enum ff_json_type type,
		const struct ff_json **ret, struct ff_error *err);
/* Typed members.  Integers must be whole, in [min, max] and at most 2^53 either
 * way, which is as far as a double is exact. */
int ff_json_int(const struct ff_json *object, const char *key, int64_t min, int64_t max,
		int64_t *ret, struct ff_error *err);
int ff_json_real(const struct ff_json *object, const char *key, double min, double max, double *ret,
		struct ff_error *err);
/* What is printed and written into other files: it may hold no control characters. */
int ff_json_string(const struct ff_json *object, const char *key, const char **ret,
		struct ff_error *err);
bool ff_json_printable(const char *text);
int ff_json_bool(const struct ff_json *object, const char *key, bool *ret, struct ff_error *err);
/* The value itself as an integer in [min, max] (for array elements). */
int ff_json_as_int(const struct ff_json *value, int64_t min, int64_t max, int64_t *ret,
		struct ff_error *err);
/* FF_E_INPUT when `object` has a key not in the NULL-terminated list: a typo
 * must not be silently ignored. */
int ff_json_only(const struct ff_json *object, const char *const *keys, struct ff_error *err);
/* Checks "format" and "version" of a document's root object. */
int ff_json_format(
		const struct ff_json *root, const char *format, int version, struct ff_error *err);

/* Growing text with JSON helpers.  After a failed allocation it stays failed
 * and every call is a no-op; ff_out_save then reports FF_E_NOMEM. */
struct ff_out {
	char *text;
	size_t len, cap;
	uint32_t depth;
	bool failed;
	struct ff_file *file;     /* where what is there goes while more comes; NULL: it stays */
	int code;                 /* what came of writing there, */
	struct ff_error *err;     /* and the sentence */
	bool flat;                /* all of it on one line: the caller's, before the first call */
	bool first;               /* nothing stands in the innermost one yet */
	uint64_t objects, broken; /* a bit a level: it is an object; it takes several lines */
};
void ff_out_init(struct ff_out *o);
void ff_out_finish(struct ff_out *o);
void ff_out_printf(struct ff_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Structure: `key` is NULL inside arrays and at the root.  Members stand one a
 * line, indented; arrays of plain values stay on one line.  close() ends the
 * innermost object or array. */
void ff_out_object(struct ff_out *o, const char *key);
void ff_out_array(struct ff_out *o, const char *key);
void ff_out_close(struct ff_out *o);
void ff_out_int(struct ff_out *o, const char *key, int64_t v);
void ff_out_u64(struct ff_out *o, const char *key, uint64_t v);
void ff_out_real(struct ff_out *o, const char *key,
		double v); /* shortest text that reads back; non-finite: null */
void ff_out_string(struct ff_out *o, const char *key, const char *v);
void ff_out_bool(struct ff_out *o, const char *key, bool v);
/* Writes a file that appears whole or not at all (ff/file.h).  "-" is standard output;
 * pipes and devices are written through.  FF_E_IO names the path and the reason. */
int ff_out_save(const struct ff_out *o, const char *path, struct ff_error *err);
/* Writes such a file while the text grows, which may be longer than memory.  Begins `o`, opens
 * `file` for it, and keeps `path`, `file` and `err` until the end, which finishes `o`.  Between
 * them every call is as ever, whatever fails; the end tells. */
int ff_out_begin_file(
		struct ff_out *o, const char *path, struct ff_file *file, struct ff_error *err);
int ff_out_end_file(struct ff_out *o);

#endif
