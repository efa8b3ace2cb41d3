/* .npy files: ten or twelve bytes, a header that is a Python dictionary, the elements.
 * SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define MOST_HEADER 65536

static const char *const descriptions[FF_ELEMENTS] = {
		[FF_ELEMENT_U8] = "|u1",
		[FF_ELEMENT_U16] = "<u2",
		[FF_ELEMENT_U32] = "<u4",
		[FF_ELEMENT_I32] = "<i4",
		[FF_ELEMENT_I64] = "<i8",
		[FF_ELEMENT_F32] = "<f4",
		[FF_ELEMENT_F64] = "<f8",
};

/* The dictionary's text on its way. */
struct text {
	const char *file, *begin, *at; /* ends in '\0' */
	int64_t first;                 /* the text's first byte in the file */
};

static int expected(const struct text *t, const char *what, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT, "%s: byte %" PRId64 ": expected %s", t->file,
			t->first + (t->at - t->begin), what);
}

static void skip(struct text *t)
{
	t->at += strspn(t->at, " \t\n");
}

static bool take(struct text *t, char c)
{
	skip(t);
	if (*t->at != c)
		return false;
	t->at++;
	return true;
}

static bool take_word(struct text *t, const char *word)
{
	skip(t);
	if (strncmp(t->at, word, strlen(word)) != 0)
		return false;
	t->at += strlen(word);
	return true;
}

static int read_string(struct text *t, char *ret, size_t room, struct ff_error *err)
{
	const char *end;

	skip(t);
	if (*t->at != '\'' && *t->at != '"')
		return expected(t, "a text in quotes (arrays of records are not read)", err);
	end = strchr(t->at + 1, *t->at);
	if (!end || (size_t)(end - t->at) > room)
		return expected(t, "a short text in quotes", err);
	memcpy(ret, t->at + 1, (size_t)(end - t->at - 1));
	ret[end - t->at - 1] = '\0';
	t->at = end + 1;
	return FF_OK;
}

static int read_element(struct text *t, struct ff_npy *ret, struct ff_error *err)
{
	struct text before = *t;
	char name[16];
	int code = read_string(t, name, sizeof(name), err);

	if (code < 0)
		return code;
	for (int i = 0; i < FF_ELEMENTS; i++)
		if (!strcmp(name, descriptions[i])) {
			ret->element = (enum ff_element)i;
			return FF_OK;
		}
	return expected(&before,
			"|u1, <u2, <u4, <i4, <i8, <f4 or <f8 (uint8 to float64, little endian)",
			err);
}

static int read_order(struct text *t, struct ff_error *err)
{
	if (take_word(t, "False"))
		return FF_OK;
	return expected(t, "False: C order, which numpy.ascontiguousarray makes", err);
}

static int read_shape(struct text *t, struct ff_npy *ret, struct ff_error *err)
{
	if (!take(t, '('))
		return expected(t, "a shape", err);
	for (ret->rank = 0; !take(t, ')'); ret->rank++) {
		long long n;
		char *end;

		if (ret->rank == FF_MAX_RANK)
			return expected(t, "fewer axes", err);
		n = strtoll(t->at, &end, 10);
		if (*t->at < '0' || *t->at > '9' || n > INT32_MAX * INT64_C(1024))
			return expected(t, "the size of an axis", err);
		ret->shape[ret->rank] = n;
		t->at = end;
		if (!take(t, ',') && *t->at != ')')
			return expected(t, "\",\" or \")\"", err);
	}
	return ret->rank ? FF_OK : expected(t, "an axis of samples", err);
}

static int read_entry(struct text *t, struct ff_npy *ret, uint32_t *seen, struct ff_error *err)
{
	static const char *const keys[] = {"descr", "fortran_order", "shape"};
	char key[32];
	int code = read_string(t, key, sizeof(key), err);
	uint32_t i = 0;

	if (code < 0)
		return code;
	while (i < 3 && strcmp(key, keys[i]) != 0)
		i++;
	if (i == 3 || (*seen & 1U << i))
		return expected(t, "descr, fortran_order and shape, once each, before this", err);
	*seen |= 1U << i;
	if (!take(t, ':'))
		return expected(t, "\":\"", err);
	if (i == 0)
		return read_element(t, ret, err);
	return i == 1 ? read_order(t, err) : read_shape(t, ret, err);
}

static int read_dictionary(struct text *t, struct ff_npy *ret, struct ff_error *err)
{
	uint32_t seen = 0;

	if (!take(t, '{'))
		return expected(t, "\"{\"", err);
	while (!take(t, '}')) {
		int code = read_entry(t, ret, &seen, err);

		if (code < 0)
			return code;
		if (!take(t, ',') && *t->at != '}')
			return expected(t, "\",\" or \"}\"", err);
	}
	if (seen != 7)
		return expected(t, "descr, fortran_order and shape before this", err);
	skip(t);
	return *t->at ? expected(t, "nothing more of the header", err) : FF_OK;
}

/* Where the dictionary begins and how long it is. */
static int read_head(struct ff_store *s, int64_t *first, int64_t *n, struct ff_error *err)
{
	uint8_t head[12] = {0};
	int code = ff_store_need(s, 10, err);

	if (code == FF_OK)
		code = ff_store_read(s, 0, 10, head, err);
	if (code < 0)
		return code;
	if (memcmp(head, MAGIC, MAGIC_BYTES) != 0)
		return ff_fail(err, FF_E_INPUT, "%s: byte 0: does not begin as .npy files do",
				ff_store_name(s));
	if (head[6] < 1 || head[6] > 3)
		return ff_fail(err, FF_E_INPUT, "%s: byte 6: version %d, expected 1 to 3",
				ff_store_name(s), head[6]);
	*first = head[6] == 1 ? 10 : 12;
	if ((code = ff_store_need(s, *first, err)) < 0 ||
			(code = ff_store_read(s, 0, (size_t)*first, head, err)) < 0)
		return code;
	*n = head[8] | head[9] << 8 | head[10] << 16 | (int64_t)head[11] << 24;
	if (*n > MOST_HEADER)
		return ff_fail(err, FF_E_INPUT,
				"%s: byte 8: a header of %" PRId64 " bytes, at most %d are read",
				ff_store_name(s), *n, MOST_HEADER);
	return ff_store_need(s, *first + *n, err);
}

static int check_end(struct ff_store *s, const struct ff_npy *a, struct ff_error *err)
{
	int64_t bytes = ff_element_bytes(a->element);

	for (uint32_t i = 0; i < a->rank; i++)
		if (__builtin_mul_overflow(bytes, a->shape[i], &bytes))
			return ff_fail(err, FF_E_INPUT,
					"%s: byte %" PRId64 ": the shape overflows 64 bits",
					ff_store_name(s), a->at);
	if (bytes > INT64_MAX - a->at - 1)
		return ff_fail(err, FF_E_INPUT, "%s: the shape overflows 64 bits",
				ff_store_name(s));
	return ff_store_end(s, a->at + bytes, err);
}

int ff_npy_read(struct ff_store *s, struct ff_npy *ret, struct ff_error *err)
{
	struct text t = {.file = ff_store_name(s)};
	struct ff_npy a = {0};
	int64_t n;
	char *bytes;
	int code = read_head(s, &t.first, &n, err);

	if (code < 0)
		return code;
	if (!(bytes = calloc(1, (size_t)n + 1)))
		return ff_fail_memory(err);
	t.begin = t.at = bytes;
	a.at = t.first + n;
	code = ff_store_read(s, t.first, (size_t)n, bytes, err);
	if (code == FF_OK)
		code = read_dictionary(&t, &a, err);
	if (code == FF_OK && strlen(bytes) != (size_t)n) {
		t.at = bytes + strlen(bytes);
		code = expected(&t, "text", err);
	}
	free(bytes);
	if (code == FF_OK)
		code = check_end(s, &a, err);
	if (code == FF_OK)
		*ret = a;
	return code;
}
