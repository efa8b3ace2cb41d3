/* Tests of JSON in: good text, bad text, and places in errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/json.h"
#include "ff/philox.h"

static struct ff_arena arena;
static struct ff_error err;

static void setup(void)
{
	ff_arena_init(&arena);
	err = (struct ff_error){0};
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* Parses from a copy without a final NUL, so that reading past it shows. */
static int parse_n(const char *text, size_t n, const struct ff_json **ret)
{
	char *copy = malloc(n ? n : 1);
	int code;

	memcpy(copy, text, n);
	code = ff_json_parse("g.json", copy, n, &arena, ret, &err);
	free(copy);
	return code;
}

static const struct ff_json *parse(const char *text)
{
	const struct ff_json *root = NULL;
	int code = parse_n(text, strlen(text), &root);

	ck_assert_msg(code == FF_OK, "%s: %s", text, err.text);
	return root;
}

static void refuses_n(const char *text, size_t n, const char *sentence)
{
	const struct ff_json *const before = (const struct ff_json *)&arena, *root = before;
	int code;

	err.text[0] = '\0';
	code = parse_n(text, n, &root);
	ck_assert_msg(code == FF_E_INPUT, "%s: taken", text);
	ck_assert_int_eq(err.code, FF_E_INPUT);
	ck_assert_str_eq(err.text, sentence);
	ck_assert_ptr_eq(root, before);
}

static void refuses(const char *text, const char *sentence)
{
	refuses_n(text, strlen(text), sentence);
}

/* ---- good text ---- */

START_TEST(every_type)
{
	const struct ff_json *r = parse(" {\"a\": [1, -2.5e3, true, false, null, \"x\"],\r\n"
					"\t\"b\": {\"c\": {}}, \"\": []} \n");
	const struct ff_json *a;

	ck_assert_int_eq(r->type, FF_JSON_OBJECT);
	ck_assert_uint_eq(r->n, 3);
	ck_assert_ptr_null(r->parent);
	ck_assert_ptr_null(r->key);
	ck_assert_str_eq(r->file, "g.json");
	a = ff_json_get(r, "a");
	ck_assert_ptr_eq(a, &r->child[0]);
	ck_assert_ptr_eq(a->parent, r);
	ck_assert_uint_eq(a->n, 6);
	ck_assert(a->child[0].type == FF_JSON_NUMBER && a->child[0].number == 1);
	ck_assert(a->child[1].number == -2500);
	ck_assert(a->child[2].type == FF_JSON_BOOL && a->child[2].number == 1);
	ck_assert(a->child[3].type == FF_JSON_BOOL && a->child[3].number == 0);
	ck_assert_int_eq(a->child[4].type, FF_JSON_NULL);
	ck_assert_str_eq(a->child[5].text, "x");
	ck_assert_uint_eq(a->child[5].index, 5);
	ck_assert_ptr_null(a->child[5].key);
	ck_assert_int_eq(ff_json_get(ff_json_get(r, "b"), "c")->type, FF_JSON_OBJECT);
	ck_assert_int_eq(ff_json_get(r, "")->type, FF_JSON_ARRAY);
	ck_assert_ptr_null(ff_json_get(r, "d"));
	ck_assert_ptr_null(ff_json_get(a, "d"));
}
END_TEST

START_TEST(roots_of_any_type)
{
	ck_assert(parse("0")->number == 0);
	ck_assert(parse("-0.5")->number == -0.5);
	ck_assert_str_eq(parse("\"\"")->text, "");
	ck_assert_int_eq(parse("null")->type, FF_JSON_NULL);
	ck_assert_uint_eq(parse("[]")->n, 0);
	ck_assert(parse("\xef\xbb\xbf[7]")->child[0].number == 7);
	ck_assert(parse("\xef\xbb\xbf"
			"8")
					->number == 8);
}
END_TEST

START_TEST(strings_are_decoded)
{
	ck_assert_str_eq(
			parse("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"")->text, "a\"\\/\b\f\n\r\tA");
	ck_assert_str_eq(parse("\"\\u00e9\\u20AC\\ud83d\\ude00\"")->text,
			"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	ck_assert_str_eq(parse("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"")->text,
			"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f");
}
END_TEST

START_TEST(numbers_keep_all_digits)
{
	char digits[64]; /* 63 characters */

	ck_assert(parse("9007199254740991")->number == 9007199254740991.0);
	ck_assert(parse("1.7976931348623157e308")->number == DBL_MAX);
	ck_assert(parse("0.1")->number == 0.1);
	ck_assert(parse("1E+2")->number == 100);
	memset(digits, '1', 63);
	memcpy(digits, "0.", 2);
	digits[63] = '\0';
	ck_assert(parse(digits)->number == 0.1111111111111111111);
}
END_TEST

START_TEST(nesting_up_to_64)
{
	char text[200];
	const struct ff_json *r;

	memset(text, '[', 64);
	memset(text + 64, ']', 64);
	text[128] = '\0';
	r = parse(text);
	for (int i = 1; i < 64; i++)
		r = &r->child[0];
	ck_assert_int_eq(r->type, FF_JSON_ARRAY);
	ck_assert_uint_eq(r->n, 0);
	ff_json_fail(r, &err, "too deep for me");
	ck_assert_ptr_nonnull(strstr(err.text, "g.json: ..."));
	ck_assert_ptr_nonnull(strstr(err.text, "[0][0]: too deep for me"));
}
END_TEST

/* ---- bad text ---- */

START_TEST(broken_text)
{
	refuses("", "g.json:1:1: expected a value, not the end of the text");
	refuses(" \n ", "g.json:2:2: expected a value, not the end of the text");
	refuses("hello", "g.json:1:1: expected a value, not 'h'");
	refuses("{", "g.json:1:2: expected a key in quotes, not the end of the text");
	refuses("{\"a\"", "g.json:1:5: expected ':', not the end of the text");
	refuses("{\"a\":", "g.json:1:6: expected a value, not the end of the text");
	refuses("{\"a\": 1", "g.json:1:8: expected ',' or '}', not the end of the text");
	refuses("{\"a\": 1,}", "g.json:1:9: expected a key in quotes, not '}'");
	refuses("{a: 1}", "g.json:1:2: expected a key in quotes, not 'a'");
	refuses("{\"a\" 1}", "g.json:1:6: expected ':', not '1'");
	refuses("{\"a\": 1]", "g.json:1:8: expected ',' or '}', not ']'");
	refuses("[1,\n 2,\n }", "g.json:3:2: expected a value, not '}'");
	refuses("[1 2]", "g.json:1:4: expected ',' or ']', not '2'");
	refuses("[1,]", "g.json:1:4: expected a value, not ']'");
	refuses("[,]", "g.json:1:2: expected a value, not ','");
	refuses("]", "g.json:1:1: expected a value, not ']'");
	refuses("[] []", "g.json:1:4: expected the end of the text, not '['");
	refuses("{}\n}", "g.json:2:1: expected the end of the text, not '}'");
	refuses("[true false]", "g.json:1:7: expected ',' or ']', not 'f'");
	refuses("[tru]", "g.json:1:2: expected a value, not 't'");
	refuses("[nullx]", "g.json:1:6: expected ',' or ']', not 'x'");
	refuses("[NaN]", "g.json:1:2: expected a value, not 'N'");
	refuses("['a']", "g.json:1:2: expected a value, not '''");
	refuses("[1 /* one */]", "g.json:1:4: expected ',' or ']', not '/'");
	refuses("[\v1]", "g.json:1:2: expected a value, not byte 0x0b");
}
END_TEST

START_TEST(broken_numbers)
{
	char digits[65];

	refuses("[01]", "g.json:1:3: expected ',' or ']', not '1'");
	refuses("[+1]", "g.json:1:2: expected a value, not '+'");
	refuses("[.5]", "g.json:1:2: expected a value, not '.'");
	refuses("[1.]", "g.json:1:4: expected a digit, not ']'");
	refuses("[-]", "g.json:1:3: expected a digit, not ']'");
	refuses("[1e]", "g.json:1:4: expected a digit, not ']'");
	refuses("1e+", "g.json:1:4: expected a digit, not the end of the text");
	refuses("[0x10]", "g.json:1:3: expected ',' or ']', not 'x'");
	refuses("[-Infinity]", "g.json:1:3: expected a digit, not 'I'");
	memset(digits, '1', 64);
	digits[64] = '\0';
	refuses(digits, "g.json:1:1: expected a number of at most 63 characters");
}
END_TEST

START_TEST(numbers_beyond_double)
{
	refuses("1e309", "g.json: expected a number that a double can hold");
	refuses("{\"a\": [1, {\"b\": -1e999}]}",
			"g.json: a[1].b: expected a number that a double can hold");
}
END_TEST

START_TEST(broken_strings)
{
	refuses("[\"abc", "g.json:1:2: the string that starts here never ends");
	refuses("\"\\", "g.json:1:2: expected one of \" \\ / b f n r t u after '\\'");
	refuses("\"\\x\"", "g.json:1:2: expected one of \" \\ / b f n r t u after '\\'");
	refuses("\"\\u12\"", "g.json:1:2: expected four hexadecimal digits after '\\u'");
	refuses("\"\\u12g4\"", "g.json:1:2: expected four hexadecimal digits after '\\u'");
	refuses("\"\\u00", "g.json:1:2: expected four hexadecimal digits after '\\u'");
	refuses("\"a\\u0000\"", "g.json:1:3: a string may not hold the NUL character");
	refuses("\"\\ud800\"", "g.json:1:2: expected a pair of surrogates");
	refuses("\"\\ud800\\u0041\"", "g.json:1:2: expected a pair of surrogates");
	refuses("\"\\udc00\"", "g.json:1:2: expected a pair of surrogates");
	refuses("\"a\nb\"", "g.json:1:3: a string may not hold a raw control character");
	refuses_n("\"a\0b\"", 5, "g.json:1:3: a string may not hold a raw control character");
	refuses_n("[1]\0", 4, "g.json:1:4: expected the end of the text, not byte 0x00");
	refuses_n("[\0]", 3, "g.json:1:2: expected a value, not byte 0x00");
	/* Columns count characters. */
	refuses("[\"\xc3\xa9\xe2\x82\xac\" 1]", "g.json:1:7: expected ',' or ']', not '1'");
}
END_TEST

START_TEST(broken_utf8)
{
	static const char *const bad[] = {
			"\x80",
			"\xbf",
			"\xc3",
			"\xc3(",
			"\xc0\x80",
			"\xc1\xbf",
			"\xe2\x82",
			"\xe2(\xac",
			"\xe0\x80\x80",
			"\xed\xa0\x80",
			"\xf0\x9f\x98",
			"\xf0\x80\x80\x80",
			"\xf4\x90\x80\x80",
			"\xf5\x80\x80\x80",
			"\xff",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char text[32];

		snprintf(text, sizeof(text), "[\"a%s\"]", bad[i]);
		refuses(text, "g.json:1:4: expected UTF-8 text");
	}
	refuses("[\"\xf0\x9f", "g.json:1:3: expected UTF-8 text");
	refuses("\xef\xbb", "g.json:1:1: expected a value, not byte 0xef");
}
END_TEST

START_TEST(duplicate_keys)
{
	refuses("{\"a\": 1, \"b\": 2, \"a\": 3}", "g.json: \"a\" stands twice");
	refuses("{\"x\": [0, {\"k\": {\"a\": 1, \"\\u0061\": 2}}]}",
			"g.json: x[1].k: \"a\" stands twice");
	parse("{\"a\": {\"a\": 1}, \"A\": 2, \"aa\": 3}");
}
END_TEST

START_TEST(deep_nesting)
{
	enum { DEEP = 100000 };
	char *text = malloc(6 * DEEP);

	memset(text, '[', DEEP);
	memset(text + DEEP, ']', DEEP);
	refuses_n(text, DEEP * 2, "g.json:1:65: expected nesting of at most 64 levels");
	refuses_n(text, DEEP, "g.json:1:65: expected nesting of at most 64 levels");
	for (int i = 0; i < DEEP; i++)
		memcpy(text + 6 * i, "{\"a\":\n", 6);
	refuses_n(text, 6 * DEEP, "g.json:65:1: expected nesting of at most 64 levels");
	free(text);
}
END_TEST

/* No cut of a good text may be taken or read beyond its end. */
START_TEST(every_truncation_is_refused)
{
	static const char text[] =
			"{\"f\": [1.5e-3, true, null, {\"g\\u00e9\": \"\xe2\x82\xac\"}]}";

	for (size_t n = 0; n + 1 < sizeof(text); n++) {
		const struct ff_json *root;

		ck_assert_int_eq(parse_n(text, n, &root), FF_E_INPUT);
		ck_assert_int_eq(strncmp(err.text, "g.json:1:", 9), 0);
	}
	parse(text);
}
END_TEST

/* Random damage to a good text: taken or refused with a sentence, no more. */
START_TEST(random_damage_is_survived)
{
	struct ff_random r = {.seed = ff_test_seed(41)};
	static const char good[] = "{\"f\": [1.5e-3, true, null, {\"g\\u00e9\": \"\xe2\x82\xac\"}],"
				   " \"h\": {\"i\": [[], {}, -0, \"\\ud83d\\ude00\"]}}";
	static const char likely[] = "{}[]\",:\\u0123456789eE+-.tfn \n";
	int taken = 0;

	for (int round = 0; round < 20000; round++) {
		char text[sizeof(good)];
		const struct ff_json *root = NULL;
		struct ff_arena_mark mark;
		int code;

		memcpy(text, good, sizeof(good));
		for (uint32_t k = ff_random_below(&r, 4) + 1; k-- > 0;) {
			uint32_t c = ff_random_below(&r, 4) ? (unsigned char)likely[ff_random_below(
									      &r, sizeof(likely))]
							    : ff_random_below(&r, 256);

			text[ff_random_below(&r, sizeof(text) - 1)] = (char)c;
		}
		err.text[0] = '\0';
		mark = ff_arena_mark(&arena);
		code = parse_n(text, sizeof(good) - 1, &root);
		ff_arena_rewind(&arena, mark);
		if (code == FF_OK ? !root : code != FF_E_INPUT || strncmp(err.text, "g.json:", 7))
			ck_abort_msg("%d for %s: %s", code, text, err.text);
		taken += code == FF_OK;
	}
	ck_assert_int_gt(taken, 100);
	ck_assert_int_lt(taken, 10000);
}
END_TEST

START_TEST(memory_refused_is_named)
{
	static const char text[] = "{\"a\": [1, 2, {\"b\": \"text\"}], \"c\": [[[]]]}";
	int refused = 0;

	for (size_t limit = 1; limit < 5000; limit += 16) {
		const struct ff_json *root = NULL;
		struct ff_arena small;
		int code;

		ff_arena_init(&small);
		small.limit = limit;
		code = ff_json_parse("g.json", text, sizeof(text) - 1, &small, &root, &err);
		ck_assert(code == FF_OK ? root != NULL : code == FF_E_NOMEM && !root);
		refused += code < 0;
		ff_arena_finish(&small);
	}
	ck_assert_int_gt(refused, 10);
	ck_assert_int_lt(refused, 300);
}
END_TEST

/* ---- typed access ---- */

START_TEST(places)
{
	const struct ff_json *r =
			parse("{\"nodes\": [0, 1, 2, {\"stride\": [1, true]}], \"a\": {\"b\": 1}}");
	const struct ff_json *node = &ff_json_get(r, "nodes")->child[3], *v;
	int64_t n = 77;

	ck_assert_int_eq(ff_json_fail(r, &err, "expected %d", 5), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: expected 5");
	ff_json_fail(ff_json_get(node, "stride"), &err, "expected a pair");
	ck_assert_str_eq(err.text, "g.json: nodes[3].stride: expected a pair");
	ff_json_fail(ff_json_get(ff_json_get(r, "a"), "b"), &err, "x");
	ck_assert_str_eq(err.text, "g.json: a.b: x");
	ck_assert_int_eq(ff_json_as_int(&ff_json_get(node, "stride")->child[1], 1, 9, &n, &err),
			FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: nodes[3].stride[1]: expected a whole number from 1 to "
				   "9, not true or false");
	ck_assert_int_eq(ff_json_need(node, "kernel", FF_JSON_ARRAY, &v, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: nodes[3]: \"kernel\" is missing");
	ck_assert_int_eq(ff_json_need(node, "stride", FF_JSON_STRING, &v, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: nodes[3].stride: expected a string, not an array");
	ck_assert_int_eq(ff_json_int(node - 1, "x", 0, 1, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: nodes[2]: expected an object, not a number");
	ck_assert_int_eq(n, 77);
}
END_TEST

START_TEST(long_places_keep_their_end)
{
	char text[4096] = "", key[300];
	const struct ff_json *r;

	memset(key, 'k', 299);
	key[299] = '\0';
	snprintf(text, sizeof(text), "{\"%s\": {\"mid\": {\"end\": 1}}}", key);
	r = parse(text);
	ff_json_fail(&r->child[0].child[0].child[0], &err, "wrong");
	ck_assert_str_eq(err.text, "g.json: ...mid.end: wrong");
	ff_json_fail(&r->child[0], &err, "wrong");
	ck_assert_str_eq(err.text, "g.json: ...: wrong");
}
END_TEST

START_TEST(integers)
{
	const struct ff_json *r = parse("{\"a\": 3, \"b\": -4, \"c\": 2.5, \"d\": 9007199254740992,"
					"\"e\": 1e300, \"f\": \"3\", \"g\": 9007199254740994}");
	int64_t n;

	ck_assert_int_eq(ff_json_int(r, "a", 3, 3, &n, &err), FF_OK);
	ck_assert_int_eq(n, 3);
	ck_assert_int_eq(ff_json_int(r, "b", INT64_MIN, INT64_MAX, &n, &err), FF_OK);
	ck_assert_int_eq(n, -4);
	ck_assert_int_eq(ff_json_int(r, "d", 0, INT64_MAX, &n, &err), FF_OK);
	ck_assert_int_eq(n, INT64_C(9007199254740992));
	ck_assert_int_eq(ff_json_int(r, "g", 0, INT64_MAX, &n, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_json_int(r, "a", 4, 8, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: a: expected a whole number from 4 to 8, not 3");
	ck_assert_int_eq(ff_json_int(r, "b", 1, INT64_MAX, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: b: expected a whole number of at least 1, not -4");
	ck_assert_int_eq(ff_json_int(r, "c", 0, 8, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: c: expected a whole number from 0 to 8, not 2.5");
	ck_assert_int_eq(ff_json_int(r, "e", 0, INT64_MAX, &n, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_json_int(r, "f", 0, 8, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: f: expected a whole number from 0 to 8, not a string");
	ck_assert_int_eq(ff_json_int(r, "z", 0, 8, &n, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: \"z\" is missing");
	ck_assert_int_eq(n, INT64_C(9007199254740992));
}
END_TEST

START_TEST(other_types)
{
	const struct ff_json *r =
			parse("{\"x\": 0.25, \"s\": \"text\", \"t\": true, \"f\": false}");
	double x;
	const char *s = NULL;
	bool b = false;

	ck_assert_int_eq(ff_json_real(r, "x", 0, 1, &x, &err), FF_OK);
	ck_assert(x == 0.25);
	ck_assert_int_eq(ff_json_real(r, "x", 0.5, 1, &x, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: x: expected a number from 0.5 to 1, not 0.25");
	ck_assert_int_eq(ff_json_real(r, "s", 0, 1, &x, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: s: expected a number, not a string");
	ck_assert_int_eq(ff_json_string(r, "s", &s, &err), FF_OK);
	ck_assert_str_eq(s, "text");
	ck_assert_int_eq(ff_json_string(r, "t", &s, &err), FF_E_INPUT);
	ck_assert_str_eq(s, "text");
	r = parse("{\"x\": 0.25, \"s\": \"red \\u001b[31m\", \"t\": true, \"f\": false, "
		  "\"d\": \"\\u007f\", \"n\": \"caf\\u00e9\"}");
	ck_assert_int_eq(ff_json_string(r, "s", &s, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: s: expected a string without control characters");
	ck_assert_int_eq(ff_json_string(r, "d", &s, &err), FF_E_INPUT);
	ck_assert_str_eq(s, "text");
	ck_assert_int_eq(ff_json_string(r, "n", &s, &err), FF_OK);
	ck_assert_str_eq(s, "caf\xc3\xa9");
	ck_assert_int_eq(ff_json_bool(r, "t", &b, &err), FF_OK);
	ck_assert(b);
	ck_assert_int_eq(ff_json_bool(r, "x", &b, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: x: expected true or false, not a number");
	ck_assert(b);
	ck_assert_int_eq(ff_json_bool(r, "f", &b, &err), FF_OK);
	ck_assert(!b);
}
END_TEST

START_TEST(unknown_keys)
{
	const struct ff_json *r = parse("{\"op\": 1, \"strid\": 2}");
	static const char *const known[] = {"op", "stride", NULL}, *const both[] = {"strid", "op",
										   NULL};
	static const char *const none[] = {NULL};

	ck_assert_int_eq(ff_json_only(r, both, &err), FF_OK);
	ck_assert_int_eq(ff_json_only(r, known, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: \"strid\" is not known here, only \"op\", \"stride\"; "
				   "did you mean stride?");
	ck_assert_int_eq(ff_json_only(r, none, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: \"op\" is not known here, only nothing");
	ck_assert_int_eq(ff_json_only(&r->child[0], known, &err), FF_E_INPUT);
}
END_TEST

START_TEST(formats)
{
	ck_assert_int_eq(ff_json_format(parse("{\"format\": \"f\", \"version\": 2}"), "f", 2, &err),
			FF_OK);
	ck_assert_int_eq(ff_json_format(parse("{\"format\": \"g\", \"version\": 2}"), "f", 2, &err),
			FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: format: expected \"f\", not \"g\"");
	ck_assert_int_eq(ff_json_format(parse("{\"format\": \"f\", \"version\": 3}"), "f", 2, &err),
			FF_E_INPUT);
	ck_assert_str_eq(err.text,
			"g.json: version: expected 2, the version this program reads, not 3");
	ck_assert_int_eq(ff_json_format(parse("{}"), "f", 2, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: \"format\" is missing");
	ck_assert_int_eq(ff_json_format(parse("{\"format\": \"f\"}"), "f", 2, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: \"version\" is missing");
	ck_assert_int_eq(ff_json_format(parse("[]"), "f", 2, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "g.json: expected an object, not an array");
}
END_TEST

/* ---- files ---- */

START_TEST(files_that_cannot_be_read)
{
	const struct ff_json *root = NULL;
	char path[] = "/tmp/ff-test-XXXXXX", text[600];
	int fd;

	ck_assert_int_eq(ff_json_load("/nowhere/x.json", &arena, &root, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "/nowhere/x.json: cannot be read: No such file or directory");
	ck_assert_int_eq(ff_json_load("/tmp", &arena, &root, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "/tmp: expected a JSON file, not a folder");
	ck_assert_int_eq(ff_json_load("/dev/zero", &arena, &root, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "/dev/zero: expected a JSON file, not a device");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ff_json_load(path, &arena, &root, &err), FF_E_INPUT);
	snprintf(text, sizeof(text), "%s:1:1: expected a value, not the end of the text", path);
	ck_assert_str_eq(err.text, text);
	ck_assert_int_eq(ftruncate(fd, ((off_t)1 << 30) + 1), 0);
	ck_assert_int_eq(ff_json_load(path, &arena, &root, &err), FF_E_INPUT);
	snprintf(text, sizeof(text), "%s: expected a file of at most 1 GiB", path);
	ck_assert_str_eq(err.text, text);
	if (geteuid() != 0) { /* root reads everything */
		ck_assert_int_eq(fchmod(fd, 0), 0);
		ck_assert_int_eq(ff_json_load(path, &arena, &root, &err), FF_E_INPUT);
	}
	ck_assert_ptr_null(root);
	close(fd);
	unlink(path);
}
END_TEST

START_TEST(files_and_pipes_are_read)
{
	const struct ff_json *root = NULL;
	char path[] = "/tmp/ff-test-XXXXXX", name[64];
	int fd = mkstemp(path), ends[2];

	ck_assert_int_eq(write(fd, "[1, 2]\n", 7), 7);
	close(fd);
	ck_assert_int_eq(ff_json_load(path, &arena, &root, &err), FF_OK);
	ck_assert_uint_eq(root->n, 2);
	ck_assert_str_eq(root->file, path);
	unlink(path);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(write(ends[1], "[1, 2, 3]", 9), 9);
	close(ends[1]);
	snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
	ck_assert_int_eq(ff_json_load(name, &arena, &root, &err), FF_OK);
	ck_assert_uint_eq(root->n, 3);
	close(ends[0]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("json");
	TCase *c = tcase_create("json");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, every_type);
	tcase_add_test(c, roots_of_any_type);
	tcase_add_test(c, strings_are_decoded);
	tcase_add_test(c, numbers_keep_all_digits);
	tcase_add_test(c, nesting_up_to_64);
	tcase_add_test(c, broken_text);
	tcase_add_test(c, broken_numbers);
	tcase_add_test(c, numbers_beyond_double);
	tcase_add_test(c, broken_strings);
	tcase_add_test(c, broken_utf8);
	tcase_add_test(c, duplicate_keys);
	tcase_add_test(c, deep_nesting);
	tcase_add_test(c, every_truncation_is_refused);
	tcase_add_test(c, random_damage_is_survived);
	tcase_add_test(c, memory_refused_is_named);
	tcase_add_test(c, places);
	tcase_add_test(c, long_places_keep_their_end);
	tcase_add_test(c, integers);
	tcase_add_test(c, other_types);
	tcase_add_test(c, unknown_keys);
	tcase_add_test(c, formats);
	tcase_add_test(c, files_that_cannot_be_read);
	tcase_add_test(c, files_and_pipes_are_read);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
