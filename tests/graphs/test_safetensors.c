/* Tests of safetensors files: what was written is read back, other types become float32,
 * and of what is no such file one sentence says why.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/philox.h"
#include "ff/safetensors.h"

static struct ff_arena arena;
static struct ff_error err;
static char folder[64], path[96];

static void setup(void)
{
	ff_arena_init(&arena);
	err = (struct ff_error){0};
	strcpy(folder, "/tmp/ff-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/t.safetensors", folder);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0); /* fails when something else was left */
}

/* A file of `header` and `n` bytes behind it. */
static void put_file(const char *header, size_t len, const void *data, size_t n)
{
	FILE *f = fopen(path, "wb");
	uint8_t lead[8];

	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < 8; i++)
		lead[i] = (uint8_t)((uint64_t)len >> (8 * i));
	ck_assert_uint_eq(fwrite(lead, 1, 8, f), 8);
	ck_assert_uint_eq(fwrite(header, 1, len, f), len);
	ck_assert_uint_eq(fwrite(data, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
}

static void refused(const char *header, size_t n, const char *why)
{
	struct ff_tensors f = {.fd = -1};
	char zeros[256] = {0};

	put_file(header, strlen(header), zeros, n);
	ck_assert_int_eq(ff_tensors_open(path, &arena, &f, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, why) && strstr(err.text, path), "%s", err.text);
	ck_assert_int_eq(f.fd, -1);
}

START_TEST(returns_what_was_written)
{
	static const char *const keys[] = {"step", "odd"};
	static const char *const texts[] = {"12", "a \"b\"\n\\"};
	const int32_t shape[] = {2, 3}, none[] = {0, 4};
	const float a[] = {1, -2, 3.5f, INFINITY, 1e-40f, 0}, scalar = 7;
	struct ff_tensors_out out;
	struct ff_tensors in;
	float back[6];

	ck_assert_int_eq(ff_tensors_create(path, &out, &err), FF_OK);
	ff_tensors_describe(&out, keys, texts, 2);
	ff_tensors_declare(&out, "a.weight", "F32", 2, shape);
	ff_tensors_declare(&out, "empty", "F32", 2, none);
	ff_tensors_declare(&out, "scalar", "F32", 0, NULL);
	ck_assert_int_eq(ff_tensors_write(&out, a, sizeof(a), &err), FF_OK);
	ck_assert_int_eq(ff_tensors_write(&out, &scalar, sizeof(scalar), &err), FF_OK);
	ck_assert_int_eq(access(path, F_OK), -1); /* not before it is whole */
	ck_assert_int_eq(ff_tensors_commit(&out, &err), FF_OK);
	ff_tensors_drop(&out);

	ck_assert_msg(ff_tensors_open(path, &arena, &in, &err) == FF_OK, "%s", err.text);
	ck_assert_uint_eq(in.n, 3);
	ck_assert_str_eq(ff_tensors_note(&in, "odd"), texts[1]);
	ck_assert_ptr_null(ff_tensors_note(&in, "even"));
	ck_assert_ptr_null(ff_tensors_find(&in, "a"));
	ck_assert_int_eq(ff_tensors_find(&in, "empty")->elements, 0);
	ck_assert_int_eq(ff_tensors_find(&in, "a.weight")->at % 8, 0);
	ck_assert_int_eq(ff_tensors_read(&in, &in.tensor[0], back, &err), FF_OK);
	ck_assert_mem_eq(back, a, sizeof(a));
	ck_assert_int_eq(ff_tensors_read(&in, &in.tensor[2], back, &err), FF_OK);
	ck_assert(back[0] == 7);
	ff_tensors_close(&in);
}
END_TEST

/* Whatever byte of a file changes, what it is in is named, or it is no such file any more. */
START_TEST(notices_every_byte_that_changes)
{
	const int32_t shape[] = {5}, none[] = {0};
	const float a[] = {1, 2, 3, 4, 5}, b[] = {6, 7, 8, 9, 10};
	struct ff_tensors_out out;
	struct ff_tensors in;
	uint32_t whole, sum;
	FILE *file;
	long n;

	ck_assert_int_eq(ff_tensors_create(path, &out, &err), FF_OK);
	ff_tensors_sum(&out);
	ff_tensors_declare(&out, "a", "F32", 1, shape);
	ff_tensors_declare(&out, "empty", "F32", 1, none);
	ff_tensors_declare(&out, "b", "F32", 1, shape);
	ck_assert_int_eq(ff_tensors_write(&out, a, sizeof(a) - 4, &err), FF_OK);
	ck_assert_int_eq(ff_tensors_write(&out, a + 4, 4, &err), FF_OK); /* a tensor in pieces */
	ck_assert_int_eq(ff_tensors_write(&out, b, sizeof(b), &err), FF_OK);
	ck_assert_int_eq(ff_tensors_commit(&out, &err), FF_OK);
	ff_tensors_drop(&out);
	ck_assert_int_eq(ff_tensors_open(path, &arena, &in, &err), FF_OK);
	ck_assert(ff_tensors_is_summed(&in));
	ck_assert_msg(ff_tensors_check(&in, &whole, &err) == FF_OK, "%s", err.text);
	ff_tensors_close(&in);
	file = fopen(path, "r+");
	ck_assert_ptr_nonnull(file);
	fseek(file, 0, SEEK_END);
	n = ftell(file);
	for (long at = 0; at < n; at++) {
		int byte, code;

		fseek(file, at, SEEK_SET);
		byte = fgetc(file);
		fseek(file, at, SEEK_SET);
		fputc(byte ^ 1 << at % 8, file);
		fflush(file);
		code = ff_tensors_open(path, &arena, &in, &err);
		if (code == FF_OK) {
			code = ff_tensors_check(&in, &sum, &err);
			ff_tensors_close(&in);
		}
		ck_assert_msg(code == FF_E_INPUT, "byte %ld", at);
		if (at >= n - 4 * 4 - 20 && at < n - 4 * 4)
			ck_assert_msg(strstr(err.text, ": b is not what was written"), "%s",
					err.text);
		fseek(file, at, SEEK_SET);
		fputc(byte, file);
	}
	fclose(file);
}
END_TEST

START_TEST(leaves_nothing_of_a_file_that_was_given_up)
{
	const int32_t shape[] = {1};
	struct ff_tensors_out out;
	float a = 1;

	ck_assert_int_eq(ff_tensors_create(path, &out, &err), FF_OK);
	ff_tensors_declare(&out, "a", "F32", 1, shape);
	ck_assert_int_eq(ff_tensors_write(&out, &a, sizeof(a), &err), FF_OK);
	ff_tensors_drop(&out); /* teardown finds the folder empty */
}
END_TEST

/* Values of IEEE 754-2019, table 3.5 and its neighbours, by hand. */
START_TEST(reads_halves_and_doubles)
{
	static const char header[] =
			"{\"h\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[8,24]},"
			"\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
			"\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},"
			"\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]}}";
	static const uint16_t h[] = {
			0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x03ff, 0x8000, 0x7c00};
	static const double want[] = {
			1, -2, 65504, 0x1p-14, 0x1p-24, 1023 * 0x1p-24, -0.0, INFINITY};
	static const uint16_t b[] = {0x3f80, 0xc040};
	const double d = 1.5;
	char data[36] = {0};
	struct ff_tensors in;
	float back[8];

	memcpy(data, &d, 8);
	memcpy(data + 8, h, 16);
	memcpy(data + 24, b, 4);
	put_file(header, sizeof(header) - 1, data, sizeof(data));
	ck_assert_msg(ff_tensors_open(path, &arena, &in, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_tensors_read(&in, ff_tensors_find(&in, "h"), back, &err), FF_OK);
	for (int i = 0; i < 8; i++)
		ck_assert(back[i] == want[i] && !signbit(back[i]) == !signbit(want[i]));
	ck_assert_int_eq(ff_tensors_read(&in, ff_tensors_find(&in, "d"), back, &err), FF_OK);
	ck_assert(back[0] == 1.5f);
	ck_assert_int_eq(ff_tensors_read(&in, ff_tensors_find(&in, "b"), back, &err), FF_OK);
	ck_assert(back[0] == 1 && back[1] == -3);
	ck_assert(!ff_tensor_is_real(ff_tensors_find(&in, "i")));
	ck_assert_int_eq(ff_tensors_read(&in, ff_tensors_find(&in, "i"), back, &err), FF_E_INPUT);
	ff_tensors_close(&in);
}
END_TEST

/* More than is read at a time. */
START_TEST(reads_long_tensors)
{
	const int32_t shape[] = {100003};
	float *a = ff_arena_array(&arena, 100003, sizeof(*a));
	float *back = ff_arena_array(&arena, 100003, sizeof(*back));
	struct ff_tensors_out out;
	struct ff_tensors in;

	ff_philox_uniform(1, 2, 0, 100003, a);
	ck_assert_int_eq(ff_tensors_create(path, &out, &err), FF_OK);
	ff_tensors_declare(&out, "a", "F32", 1, shape);
	ck_assert_int_eq(ff_tensors_write(&out, a, 100003 * sizeof(*a), &err), FF_OK);
	ck_assert_int_eq(ff_tensors_commit(&out, &err), FF_OK);
	ff_tensors_drop(&out);
	ck_assert_int_eq(ff_tensors_open(path, &arena, &in, &err), FF_OK);
	ck_assert_int_eq(ff_tensors_read(&in, &in.tensor[0], back, &err), FF_OK);
	ck_assert_mem_eq(a, back, 100003 * sizeof(*a));
	ff_tensors_close(&in);
}
END_TEST

START_TEST(says_what_is_wrong)
{
	struct ff_tensors f = {.fd = -1};

#define TENSOR(name, shape, from, to)                                                              \
	"\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]" \
	"}"
	refused("{" TENSOR("a", "[2]", 0, 8) "}", 4,
			"a.data_offsets: the file ends 4 bytes too early");
	refused("{" TENSOR("a", "[2]", 0, 4) "}", 4, "4 bytes, but 2 elements of F32");
	refused("{" TENSOR("a", "[2]", 8, 0) "}", 8, "data_offsets");
	refused("{" TENSOR("a", "[2]", 0, 8) "}", 12, "4 bytes at its end belong to no tensor");
	refused("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("b", "[1]", 0, 4) "}", 4, "overlaps");
	refused("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("b", "[1]", 8, 12) "}", 12,
			"leaves a hole");
	refused("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("a", "[1]", 0, 4) "}", 4, "a");
	refused("{" TENSOR("a", "[-1]", 0, 4) "}", 4, "shape");
	refused("{" TENSOR("a", "[4194304,4194304,4194304]", 0, 4) "}", 4, "too many elements");
	refused("{" TENSOR("a", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "axes");
	refused("{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F31");
	refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets");
	refused("{\"a\":1}", 0, "expected an object");
	refused("{\"__metadata__\":{\"a\":1}}", 0, "expected a text");
	refused("[]", 0, "expected an object");
	refused("{", 0, "t.safetensors");
#undef TENSOR
	put_file("{ }", 3, "", 0);
	ck_assert_int_eq(truncate(path, 9), 0);
	ck_assert_int_eq(ff_tensors_open(path, &arena, &f, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(
			strstr(err.text, "ends in its header, of which 1 of 3 bytes are there"));
	unlink(path);
	ck_assert_int_eq(ff_tensors_open(path, &arena, &f, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot be read"));
	ck_assert_int_eq(ff_tensors_open(folder, &arena, &f, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "plain file"));
}
END_TEST

/* A file with any of its bytes changed, or cut short, is read or refused, and what is read
 * stays inside of it. */
START_TEST(survives_damage)
{
	static const char header[] =
			"{\"__metadata__\":{\"k\":\"v\"},"
			"\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
			"\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]}}";
	const size_t len = sizeof(header) - 1;
	uint64_t seed = ff_test_seed(1);
	uint32_t draw[4], accepted = 0;
	float whole[64];

	for (uint64_t i = 0; i < 4000; i++) {
		char text[2 * sizeof(header)] = {0}, data[24] = {0};
		struct ff_tensors f = {.fd = -1};
		struct ff_arena_mark mark = ff_arena_mark(&arena);

		ff_philox(seed, 0, i, draw);
		memcpy(text, header, sizeof(header));
		text[draw[0] % len] = (char)draw[1];
		put_file(text, draw[2] % 8 ? len : draw[3] % (2 * len), data, draw[2] % 7 ? 24 : 9);
		if (ff_tensors_open(path, &arena, &f, &err) == FF_OK) {
			accepted++;
			for (uint32_t k = 0; k < f.n; k++)
				if (f.tensor[k].elements <= 64 && ff_tensor_is_real(&f.tensor[k]))
					ck_assert_int_eq(ff_tensors_read(&f, &f.tensor[k], whole,
									 &err),
							FF_OK);
			ff_tensors_close(&f);
		}
		ff_arena_rewind(&arena, mark);
	}
	ck_assert_uint_gt(accepted, 10);
	ck_assert_uint_lt(accepted, 3000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("safetensors");
	TCase *c = tcase_create("files");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, returns_what_was_written);
	tcase_add_test(c, notices_every_byte_that_changes);
	tcase_add_test(c, leaves_nothing_of_a_file_that_was_given_up);
	tcase_add_test(c, reads_halves_and_doubles);
	tcase_add_test(c, reads_long_tensors);
	tcase_add_test(c, says_what_is_wrong);
	tcase_add_test(c, survives_damage);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
