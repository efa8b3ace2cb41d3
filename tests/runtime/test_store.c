/* Bytes of data files: plain, packed, and packed ones that are not as they should be.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "data/store.h"
#include "ff/philox.h"

#define BYTES 3000000 /* more than is unpacked at once */

struct scene {
	char path[64];
	uint8_t *bytes, *packed;
	size_t n_packed;
};

static void write_bytes(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
}

/* Half of the bytes can be packed. */
static void open_scene(struct scene *s)
{
	z_stream z = {0};
	int fd;

	snprintf(s->path, sizeof(s->path), "/tmp/ff-test-store-XXXXXX");
	fd = mkstemp(s->path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	s->bytes = malloc(BYTES);
	s->packed = malloc(BYTES + 1000);
	ck_assert(s->bytes && s->packed);
	for (uint32_t i = 0; i < BYTES; i++)
		s->bytes[i] = i % 2 ? 7 : (uint8_t)ff_philox_at(1, 2, i);
	ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = s->bytes;
	z.avail_in = BYTES;
	z.next_out = s->packed;
	z.avail_out = BYTES + 1000;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	s->n_packed = z.total_out;
	deflateEnd(&z);
}

static void close_scene(struct scene *s)
{
	unlink(s->path);
	free(s->bytes);
	free(s->packed);
}

static void check_good(struct scene *s, const uint8_t *bytes, size_t n, int64_t whole)
{
	struct ff_store *store;
	struct ff_error err;
	uint8_t some[5];

	write_bytes(s->path, bytes, n);
	ck_assert_int_eq(ff_store_open(s->path, &store, &err), FF_OK);
	ck_assert_int_eq(ff_store_need(store, 10, &err), FF_OK);
	ck_assert_int_eq(ff_store_read(store, 5, 5, some, &err), FF_OK);
	ck_assert_mem_eq(some, s->bytes + 5, 5);
	ck_assert_msg(ff_store_end(store, whole, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_store_bytes(store), whole);
	ck_assert_int_eq(ff_store_read(store, BYTES - 5, 5, some, &err), FF_OK);
	ck_assert_mem_eq(some, s->bytes + BYTES - 5, 5);
	ff_store_close(store);
}

START_TEST(good)
{
	struct scene s;
	uint8_t *twice;

	open_scene(&s);
	check_good(&s, s.bytes, BYTES, BYTES);
	check_good(&s, s.packed, s.n_packed, BYTES);
	/* gzip's files may have several members */
	twice = malloc(2 * s.n_packed);
	ck_assert_ptr_nonnull(twice);
	memcpy(twice, s.packed, s.n_packed);
	memcpy(twice + s.n_packed, s.packed, s.n_packed);
	check_good(&s, twice, 2 * s.n_packed, 2 * BYTES);
	free(twice);
	close_scene(&s);
}
END_TEST

/* The file as it is now does not hold BYTES bytes: one sentence, which names it once. */
static void check_bad(struct scene *s, const uint8_t *bytes, size_t n, const char *expected)
{
	struct ff_store *store;
	struct ff_error err;
	char once[100];

	write_bytes(s->path, bytes, n);
	ck_assert_int_eq(ff_store_open(s->path, &store, &err), FF_OK);
	ck_assert_int_eq(ff_store_end(store, BYTES, &err), FF_E_INPUT);
	snprintf(once, sizeof(once), "%s: ", s->path);
	ck_assert_msg(!strncmp(err.text, once, strlen(once)) &&
					!strstr(err.text + strlen(once), s->path),
			"not once: %s", err.text);
	ck_assert_msg(strstr(err.text, expected) != NULL, "no \"%s\" in: %s", expected, err.text);
	ff_store_close(store);
}

/* A file that lacks its last bytes is not accepted, though all that it holds is there. */
START_TEST(without_trailer)
{
	char expected[100];
	struct scene s;

	open_scene(&s);
	for (size_t less = 1; less <= 8; less++) {
		snprintf(expected, sizeof(expected),
				"is truncated: its compressed data ends at byte %zu, in the middle",
				s.n_packed - less);
		check_bad(&s, s.packed, s.n_packed - less, expected);
	}
	s.packed[s.n_packed - 6] ^= 1;
	check_bad(&s, s.packed, s.n_packed, "of its compressed data: incorrect data check");
	s.packed[s.n_packed - 6] ^= 1;
	s.packed[s.n_packed - 1] ^= 1;
	check_bad(&s, s.packed, s.n_packed, "of its compressed data: incorrect length check");
	close_scene(&s);
}
END_TEST

/* Damage is found at its place, though all that is wanted of the file is before it. */
START_TEST(damage)
{
	char expected[100];
	struct scene s;
	uint8_t *twice;

	open_scene(&s);
	twice = malloc(2 * s.n_packed);
	ck_assert_ptr_nonnull(twice);
	memcpy(twice, s.packed, s.n_packed);
	memcpy(twice + s.n_packed, s.packed, s.n_packed);
	twice[s.n_packed]++;
	snprintf(expected, sizeof(expected),
			": byte %zu of its compressed data: incorrect header check",
			s.n_packed + 2);
	check_bad(&s, twice, 2 * s.n_packed, expected);
	free(twice);
	close_scene(&s);
}
END_TEST

START_TEST(sizes)
{
	struct scene s;
	struct ff_store *store;
	struct ff_error err;

	open_scene(&s);
	check_bad(&s, s.bytes, BYTES - 3, "is truncated: ends at byte 2999997, expected 3 more");
	write_bytes(s.path, s.packed, s.n_packed);
	ck_assert_int_eq(ff_store_open(s.path, &store, &err), FF_OK);
	ck_assert_int_eq(ff_store_end(store, BYTES - 1, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "goes on behind byte 2999999"));
	ff_store_close(store);
	ck_assert_int_eq(ff_store_open("/dev/null", &store, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "/dev/null: is no regular file");
	ck_assert_int_eq(ff_store_open("/tmp/ff-none", &store, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "/tmp/ff-none: No such file or directory");
	/* one that became shorter meanwhile */
	write_bytes(s.path, s.bytes, BYTES);
	ck_assert_int_eq(ff_store_open(s.path, &store, &err), FF_OK);
	ck_assert_int_eq(truncate(s.path, 1000), 0);
	ck_assert_int_eq(ff_store_read(store, 900, 200, s.packed, &err), FF_E_IO);
	ck_assert_ptr_nonnull(strstr(err.text, "ends at byte 1000 now"));
	ff_store_close(store);
	close_scene(&s);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("store");
	TCase *t = tcase_create("all");

	tcase_add_test(t, good);
	tcase_add_test(t, without_trailer);
	tcase_add_test(t, damage);
	tcase_add_test(t, sizes);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
