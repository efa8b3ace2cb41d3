/* JSON text, before it is parsed.  The library that parses it takes more than
 * JSON (01, raw control characters), cuts long numbers and recurses on nesting;
 * what passes here it reads as meant, and its only failure left is memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_NUMBER 63

struct scan {
	const char *file, *text, *end, *at;
	uint32_t depth;
	uint64_t objects; /* bit d: the container at depth d is an object */
	struct ff_error *err;
};

size_t ff_utf8_length(const char *s, size_t n)
{
	const unsigned char *c = (const unsigned char *)s;
	size_t length;
	unsigned char least, most;

	if (n == 0)
		return 0;
	if (c[0] < 0x80)
		return 1;
	/* Length from the first byte; bounds of the second shut out overlong
	 * forms, surrogates and what lies beyond U+10FFFF (RFC 3629). */
	length = c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
	if (length == 0 || length > n)
		return 0;
	least = c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
	most = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
	if (c[1] < least || c[1] > most)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

static int fail_at(const struct scan *s, const char *at, const char *what)
{
	size_t line = 1, column = 1;

	for (const char *c = s->text; c < at; c++) {
		if (*c == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)*c & 0xc0) != 0x80) {
			column++;
		}
	}
	return ff_fail(s->err, FF_E_INPUT, "%s:%zu:%zu: %s", s->file, line, column, what);
}

/* "expected `what`, not ...": whatever stands at the scanner. */
static int fail_expected(const struct scan *s, const char *what)
{
	char text[128], found[32];

	if (s->at == s->end)
		snprintf(found, sizeof(found), "the end of the text");
	else if (*s->at > 0x20 && *s->at < 0x7f)
		snprintf(found, sizeof(found), "'%c'", *s->at);
	else
		snprintf(found, sizeof(found), "byte 0x%02x", (unsigned char)*s->at);
	snprintf(text, sizeof(text), "expected %s, not %s", what, found);
	return fail_at(s, s->at, text);
}

static bool peek(const struct scan *s, char c)
{
	return s->at < s->end && *s->at == c;
}

static bool take(struct scan *s, char c)
{
	if (!peek(s, c))
		return false;
	s->at++;
	return true;
}

static void skip_space(struct scan *s)
{
	while (peek(s, ' ') || peek(s, '\n') || peek(s, '\t') || peek(s, '\r'))
		s->at++;
}

/* Four hexadecimal digits, or -1. */
static int32_t take_hex(struct scan *s)
{
	int32_t v = 0;

	for (int i = 0; i < 4; i++) {
		char c;

		if (s->at == s->end)
			return -1;
		c = *s->at;
		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v * 16 + ((c | 0x20) - 'a' + 10);
		else
			return -1;
		s->at++;
	}
	return v;
}

static int check_escape(struct scan *s)
{
	const char *start = s->at++; /* the backslash */
	int32_t unit;

	if (s->at < s->end && *s->at && strchr("\"\\/bfnrt", *s->at)) {
		s->at++;
		return FF_OK;
	}
	if (!take(s, 'u'))
		return fail_at(s, start, "expected one of \" \\ / b f n r t u after '\\'");
	unit = take_hex(s);
	if (unit < 0)
		return fail_at(s, start, "expected four hexadecimal digits after '\\u'");
	if (unit == 0)
		return fail_at(s, start, "a string may not hold the NUL character");
	if (unit >= 0xd800 && unit < 0xe000) {
		bool pair = unit < 0xdc00 && take(s, '\\') && take(s, 'u');
		int32_t low = pair ? take_hex(s) : -1;

		if (low < 0xdc00 || low >= 0xe000)
			return fail_at(s, start, "expected a pair of surrogates");
	}
	return FF_OK;
}

static int check_string(struct scan *s)
{
	const char *start = s->at;

	if (!take(s, '"'))
		return fail_expected(s, "a string");
	while (!take(s, '"')) {
		size_t n;

		if (s->at == s->end)
			return fail_at(s, start, "the string that starts here never ends");
		if (*s->at == '\\') {
			int code = check_escape(s);

			if (code < 0)
				return code;
			continue;
		}
		if ((unsigned char)*s->at < 0x20)
			return fail_at(s, s->at, "a string may not hold a raw control character");
		n = ff_utf8_length(s->at, (size_t)(s->end - s->at));
		if (n == 0)
			return fail_at(s, s->at, "expected UTF-8 text");
		s->at += n;
	}
	return FF_OK;
}

static bool take_digits(struct scan *s)
{
	const char *start = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return s->at > start;
}

static int check_number(struct scan *s)
{
	const char *start = s->at;

	take(s, '-');
	if (!take(s, '0') && !take_digits(s))
		return fail_expected(s, "a digit");
	if (take(s, '.') && !take_digits(s))
		return fail_expected(s, "a digit");
	if (take(s, 'e') || take(s, 'E')) {
		if (!take(s, '+'))
			take(s, '-');
		if (!take_digits(s))
			return fail_expected(s, "a digit");
	}
	if (s->at - start > MAX_NUMBER)
		return fail_at(s, start, "expected a number of at most 63 characters");
	return FF_OK;
}

static int check_plain(struct scan *s)
{
	static const char *const words[] = {"true", "false", "null"};

	if (s->at < s->end && (*s->at == '-' || (*s->at >= '0' && *s->at <= '9')))
		return check_number(s);
	if (peek(s, '"'))
		return check_string(s);
	for (int i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
			s->at += n;
			return FF_OK;
		}
	}
	return fail_expected(s, "a value");
}

static bool in_object(const struct scan *s)
{
	return s->depth && s->objects >> (s->depth - 1) & 1;
}

static int enter(struct scan *s, bool object)
{
	uint64_t bit;

	if (s->depth == FF_JSON_MAX_DEPTH)
		return fail_at(s, s->at - 1, "expected nesting of at most 64 levels");
	bit = UINT64_C(1) << s->depth++;
	s->objects = object ? s->objects | bit : s->objects & ~bit;
	return FF_OK;
}

/* A key and its colon, where the innermost container is an object. */
static int check_key(struct scan *s)
{
	int code;

	if (!in_object(s))
		return FF_OK;
	skip_space(s);
	if (!peek(s, '"'))
		return fail_expected(s, "a key in quotes");
	code = check_string(s);
	if (code < 0)
		return code;
	skip_space(s);
	return take(s, ':') ? FF_OK : fail_expected(s, "':'");
}

/* Behind a value: closes what ends here, until a comma or the end. */
static int check_after(struct scan *s)
{
	while (s->depth) {
		skip_space(s);
		if (take(s, ','))
			return FF_OK;
		if (!take(s, in_object(s) ? '}' : ']'))
			return fail_expected(s, in_object(s) ? "',' or '}'" : "',' or ']'");
		s->depth--;
	}
	return FF_OK;
}

/* One value; of a container only the opening, unless it is empty. */
static int check_value(struct scan *s, bool *opened)
{
	bool object;
	int code;

	skip_space(s);
	*opened = false;
	object = take(s, '{');
	if (!object && !take(s, '['))
		return check_plain(s);
	code = enter(s, object);
	if (code < 0)
		return code;
	skip_space(s);
	*opened = !take(s, object ? '}' : ']');
	s->depth -= !*opened;
	return FF_OK;
}

int ff_json_check_text(const char *file, const char *text, size_t len, struct ff_error *err)
{
	struct scan s = {.file = file, .text = text, .end = text + len, .at = text, .err = err};

	do {
		bool opened;
		int code = check_key(&s);

		if (code == FF_OK)
			code = check_value(&s, &opened);
		if (code == FF_OK && !opened)
			code = check_after(&s);
		if (code < 0)
			return code;
	} while (s.depth);
	skip_space(&s);
	return s.at == s.end ? FF_OK : fail_expected(&s, "the end of the text");
}
