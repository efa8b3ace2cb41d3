/* Tests of JSON out: layout, round trips, files that appear whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/file.h"
#include "ff/json.h"
#include "ff/philox.h"

/* The library's fsync: it notes what it was called for, and fails where a test says so. */
static struct {
	uint32_t files, folders;
	int file_errno, folder_errno;
} synced;

int fsync(int fd)
{
	struct stat st;
	bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);

	synced.files += !folder;
	synced.folders += folder;
	errno = folder ? synced.folder_errno : synced.file_errno;
	return errno ? -1 : (int)syscall(SYS_fsync, fd);
}

static struct ff_arena arena;
static struct ff_error err;
static struct ff_out out;
static char folder[64];

static void setup(void)
{
	ff_arena_init(&arena);
	ff_out_init(&out);
	err = (struct ff_error){0};
	memset(&synced, 0, sizeof(synced));
	strcpy(folder, "/tmp/ff-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
	ff_out_finish(&out);
	ff_out_finish(NULL);
	ff_arena_finish(&arena);
	ck_assert_int_eq(rmdir(folder), 0); /* fails when a test left a file */
}

static const struct ff_json *reread(void)
{
	const struct ff_json *root = NULL;
	int code;

	ck_assert(!out.failed);
	code = ff_json_parse("out", out.text, out.len, &arena, &root, &err);
	ck_assert_msg(code == FF_OK, "%s in %s", err.text, out.text);
	return root;
}

START_TEST(layout)
{
	ff_out_object(&out, NULL);
	ff_out_string(&out, "format", "f");
	ff_out_int(&out, "n", -3);
	ff_out_array(&out, "shape");
	ff_out_int(&out, NULL, 1);
	ff_out_u64(&out, NULL, UINT64_MAX);
	ff_out_real(&out, NULL, 0.5);
	ff_out_close(&out);
	ff_out_array(&out, "nodes");
	for (int i = 0; i < 2; i++) {
		ff_out_object(&out, NULL);
		ff_out_bool(&out, "b", i);
		ff_out_close(&out);
	}
	ff_out_array(&out, NULL);
	ff_out_string(&out, NULL, NULL);
	ff_out_close(&out);
	ff_out_close(&out);
	ff_out_object(&out, "none");
	ff_out_close(&out);
	ff_out_array(&out, "empty");
	ff_out_close(&out);
	ff_out_close(&out);
	ck_assert_str_eq(out.text, "{\n"
				   "  \"format\": \"f\",\n"
				   "  \"n\": -3,\n"
				   "  \"shape\": [1, 18446744073709551615, 0.5],\n"
				   "  \"nodes\": [\n"
				   "    {\n"
				   "      \"b\": false\n"
				   "    },\n"
				   "    {\n"
				   "      \"b\": true\n"
				   "    },\n"
				   "    [null]\n"
				   "  ],\n"
				   "  \"none\": {},\n"
				   "  \"empty\": []\n"
				   "}\n");
	ck_assert_uint_eq(strlen(out.text), out.len);
	reread();
}
END_TEST

START_TEST(strings_come_back)
{
	char all[300];
	const struct ff_json *r;

	for (int i = 1; i < 128; i++)
		all[i - 1] = (char)i;
	strcpy(all + 127, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	ff_out_object(&out, NULL);
	ff_out_string(&out, all, all);
	ff_out_close(&out);
	r = reread();
	ck_assert_str_eq(r->child[0].key, all);
	ck_assert_str_eq(r->child[0].text, all);
}
END_TEST

/* Names come from the world: what is not UTF-8 must not make a bad file. */
START_TEST(broken_utf8_is_replaced)
{
	ff_out_string(&out, NULL, "a\xff\xe2\x82z");
	ck_assert_str_eq(reread()->text, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
}
END_TEST

static bool same_bits(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

START_TEST(reals_are_short_and_exact)
{
	static const struct {
		double v;
		const char *text;
	} exact[] = {{0, "0"}, {-0.0, "-0"}, {0.1, "0.1"}, {1e21, "1e+21"}, {100, "100"},
			{1.0 / 3, "0.3333333333333333"}, {0.1 + 0.2, "0.30000000000000004"},
			{DBL_MAX, "1.7976931348623157e+308"},
			{DBL_TRUE_MIN, "4.94065645841247e-324"}, {NAN, "null"}, {INFINITY, "null"},
			{-INFINITY, "null"}};
	struct ff_random r = {.seed = ff_test_seed(51)};
	enum { N = 5000 };
	static double v[N];
	const struct ff_json *root;

	for (size_t i = 0; i < sizeof(exact) / sizeof(*exact); i++) {
		struct ff_out o;

		ff_out_init(&o);
		ff_out_real(&o, NULL, exact[i].v);
		ck_assert_str_eq(o.text, exact[i].text);
		ff_out_finish(&o);
	}
	ff_out_array(&out, NULL);
	for (int i = 0; i < N; i++) {
		uint64_t bits = (uint64_t)ff_random_u32(&r) << 32 | ff_random_u32(&r);

		memcpy(&v[i], &bits, sizeof(bits));
		if (!isfinite(v[i]) || i % 2)
			v[i] = ff_random_unit(&r) * 1e4;
		ff_out_real(&out, NULL, v[i]);
	}
	ff_out_close(&out);
	root = reread();
	for (int i = 0; i < N; i++)
		if (!same_bits(root->child[i].number, v[i]))
			ck_abort_msg("%a came back as %a", v[i], root->child[i].number);
}
END_TEST

/* In a locale with a decimal comma, where the machine has one. */
START_TEST(locale_does_not_matter)
{
	static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};

	for (size_t i = 0; i < 4 && !setlocale(LC_NUMERIC, comma[i]); i++)
		;
	ff_out_array(&out, NULL);
	ff_out_real(&out, NULL, 1.5);
	ff_out_real(&out, NULL, -2.25e-30);
	ff_out_close(&out);
	setlocale(LC_NUMERIC, "C");
	ck_assert_str_eq(out.text, "[1.5, -2.25e-30]\n");
}
END_TEST

/* Writes a random tree; whatever the reader sees, written again, is the same. */
static void write_random(struct ff_out *o, struct ff_random *r, const char *key, int depth)
{
	char name[32];
	uint32_t what = ff_random_below(r, depth < 5 ? 7 : 5);

	if (depth == 0)
		what = 5;
	if (what == 0) {
		ff_out_int(o, key, (int64_t)ff_random_u32(r) - INT64_C(2000000000));
	} else if (what == 1) {
		ff_out_real(o, key, ff_random_unit(r));
	} else if (what == 2) {
		ff_out_bool(o, key, ff_random_below(r, 2));
	} else if (what == 3) {
		snprintf(name, sizeof(name), "\n%u\"\\\xc3\xa9", ff_random_below(r, 1000));
		ff_out_string(o, key, name);
	} else if (what == 4) {
		ff_out_string(o, key, NULL);
	} else {
		uint32_t n = ff_random_below(r, 5);

		(what == 5 ? ff_out_object : ff_out_array)(o, key);
		for (uint32_t i = 0; i < n; i++) {
			snprintf(name, sizeof(name), "key %u", i);
			write_random(o, r, what == 5 ? name : NULL, depth + 1);
		}
		ff_out_close(o);
	}
}

static void write_tree(struct ff_out *o, const struct ff_json *v)
{
	if (v->type == FF_JSON_OBJECT || v->type == FF_JSON_ARRAY) {
		(v->type == FF_JSON_OBJECT ? ff_out_object : ff_out_array)(o, v->key);
		for (uint32_t i = 0; i < v->n; i++)
			write_tree(o, &v->child[i]);
		ff_out_close(o);
	} else if (v->type == FF_JSON_NUMBER) {
		ff_out_real(o, v->key, v->number);
	} else if (v->type == FF_JSON_BOOL) {
		ff_out_bool(o, v->key, v->number != 0);
	} else {
		ff_out_string(o, v->key, v->text);
	}
}

START_TEST(random_trees_come_back)
{
	struct ff_random r = {.seed = ff_test_seed(52)};

	for (int round = 0; round < 300; round++) {
		struct ff_out again;

		ff_out_finish(&out);
		write_random(&out, &r, NULL, 0);
		ff_out_init(&again);
		write_tree(&again, reread());
		ck_assert_str_eq(again.text, out.text);
		ff_out_finish(&again);
	}
}
END_TEST

START_TEST(nesting_beyond_the_reader_fails)
{
	char path[100];

	for (int i = 0; i < 65; i++)
		ff_out_array(&out, NULL);
	for (int i = 0; i < 65; i++)
		ff_out_close(&out);
	ck_assert(out.failed);
	snprintf(path, sizeof(path), "%s/x", folder);
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_E_NOMEM);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* ---- files ---- */

static char *in_folder(const char *name)
{
	return ff_arena_printf(&arena, "%s/%s", folder, name);
}

static uint32_t count_files(void)
{
	uint32_t n = 0;
	DIR *d = opendir(folder);

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void has_content(const char *path, const char *text)
{
	char buf[100] = "";
	FILE *f = fopen(path, "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_lt(fread(buf, 1, sizeof(buf) - 1, f), sizeof(buf) - 1);
	fclose(f);
	ck_assert_str_eq(buf, text);
}

START_TEST(saves_and_replaces)
{
	char *path = in_folder("a.json"), *link = in_folder("link.json");
	struct stat st;
	mode_t mask = umask(027);

	ff_out_printf(&out, "[%d]\n", 1);
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	umask(mask);
	has_content(path, "[1]\n");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0640);
	ck_assert_int_eq(symlink("a.json", link), 0);
	ff_out_printf(&out, "[2]\n");
	ck_assert_int_eq(ff_out_save(&out, link, &err), FF_OK);
	has_content(path, "[1]\n[2]\n");
	ck_assert_int_eq(lstat(link, &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
	ck_assert_uint_eq(count_files(), 2);
	unlink(link);
	unlink(path);
}
END_TEST

START_TEST(empty_text_is_a_file_too)
{
	char *path = in_folder("empty");

	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	has_content(path, "");
	unlink(path);
}
END_TEST

START_TEST(nowhere_to_write)
{
	char *path = in_folder("no/such/x.json"), text[300];

	ff_out_printf(&out, "[]\n");
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_E_IO);
	snprintf(text, sizeof(text), "%s: cannot be written: No such file or directory", path);
	ck_assert_str_eq(err.text, text);
	ck_assert_int_eq(ff_out_save(&out, folder, &err), FF_E_IO);
	snprintf(text, sizeof(text), "%s: cannot be written: Is a directory", folder);
	ck_assert_str_eq(err.text, text);
	ck_assert_int_eq(ff_out_save(&out, "/proc/ff-test.json", &err), FF_E_IO);
	ck_assert_int_eq(ff_out_save(&out, "/dev/full", &err), FF_E_IO);
	ck_assert_str_eq(err.text, "/dev/full: cannot be written: No space left on device");
	if (geteuid() != 0) { /* root writes everywhere */
		ck_assert_int_eq(chmod(folder, 0500), 0);
		ck_assert_int_eq(ff_out_save(&out, in_folder("x.json"), &err), FF_E_IO);
		ck_assert_int_eq(chmod(folder, 0700), 0);
	}
	ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(devices_stay_devices)
{
	struct stat st;

	ff_out_printf(&out, "[]\n");
	ck_assert_int_eq(ff_out_save(&out, "/dev/null", &err), FF_OK);
	ck_assert_int_eq(stat("/dev/null", &st), 0);
	ck_assert(S_ISCHR(st.st_mode));
}
END_TEST

/* A write that breaks off in the middle leaves the old file and nothing else. */
START_TEST(failed_write_leaves_the_old_file)
{
	char *path = in_folder("a.json");
	struct rlimit limit, small;
	void (*before)(int);
	int code;

	ff_out_printf(&out, "[]\n");
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	ff_out_printf(&out, "%100000d", 1);
	getrlimit(RLIMIT_FSIZE, &limit);
	small = (struct rlimit){1000, limit.rlim_max};
	before = signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	code = ff_out_save(&out, path, &err);
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, before);
	ck_assert_int_eq(code, FF_E_IO);
	has_content(path, "[]\n");
	ck_assert_uint_eq(count_files(), 1);
	unlink(path);
}
END_TEST

/* The bytes are on the disk before the name is, and the name is too. */
START_TEST(files_and_folders_are_synchronised)
{
	char *path = in_folder("a.json"), text[300];

	ff_out_printf(&out, "[]\n");
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	ck_assert_uint_eq(synced.files, 1);
	ck_assert_uint_eq(synced.folders, 1);
	synced.file_errno = synced.folder_errno = EINVAL; /* file systems that know no fsync */
	ff_out_printf(&out, "[2]\n");
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_OK);
	has_content(path, "[]\n[2]\n");
	synced.file_errno = EIO;
	ff_out_printf(&out, "[3]\n");
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_E_IO);
	snprintf(text, sizeof(text), "%s: cannot be written: Input/output error", path);
	ck_assert_str_eq(err.text, text);
	has_content(path, "[]\n[2]\n");
	synced.file_errno = 0;
	synced.folder_errno = EIO;
	ck_assert_int_eq(ff_out_save(&out, path, &err), FF_E_IO);
	ck_assert_uint_eq(count_files(), 1);
	unlink(path);
}
END_TEST

START_TEST(a_dropped_file_was_never_there)
{
	char *path = in_folder("a.json");
	struct ff_file f;

	ck_assert_int_eq(ff_file_open(path, &f, &err), FF_OK);
	ck_assert_int_eq(ff_file_write(&f, "abc", 3, &err), FF_OK);
	ck_assert_uint_eq(count_files(), 1);
	ff_file_drop(&f);
	ff_file_drop(&f);
	ck_assert_uint_eq(count_files(), 0);
	ck_assert_uint_eq(synced.files, 0);
}
END_TEST

#define NUMBERS 600000 /* some megabytes */

static void write_numbers(struct ff_out *o)
{
	ff_out_array(o, NULL);
	for (int i = 0; i < NUMBERS; i++)
		ff_out_int(o, NULL, i);
	ff_out_close(o);
}

/* Long text goes to its file while it grows, and is what it would have been. */
START_TEST(long_text_does_not_stay_in_memory)
{
	char *path = in_folder("a.json");
	struct ff_file f;
	struct ff_out o;
	char *text;
	FILE *in;

	write_numbers(&out);
	ck_assert_int_eq(ff_out_begin_file(&o, path, &f, &err), FF_OK);
	write_numbers(&o);
	ck_assert_uint_lt(o.cap, out.len / 2);
	ck_assert_int_eq(ff_out_end_file(&o), FF_OK);
	text = malloc(out.len + 1);
	in = fopen(path, "r");
	ck_assert(text && in);
	ck_assert_uint_eq(fread(text, 1, out.len + 1, in), out.len);
	ck_assert_int_eq(memcmp(text, out.text, out.len), 0);
	fclose(in);
	free(text);
	unlink(path);
	ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(long_text_that_cannot_be_written_is_not_there)
{
	char *path = in_folder("a.json");
	struct ff_file f;
	struct ff_out o;

	ck_assert_int_eq(ff_out_begin_file(&o, in_folder("no/x.json"), &f, &err), FF_E_IO);
	ck_assert_int_eq(ff_out_begin_file(&o, "/dev/full", &f, &err), FF_OK);
	write_numbers(&o);
	ck_assert_int_eq(ff_out_end_file(&o), FF_E_IO);
	ck_assert_str_eq(err.text, "/dev/full: cannot be written: No space left on device");
	ck_assert_int_eq(ff_out_begin_file(&o, path, &f, &err), FF_OK);
	for (int i = 0; i < 65; i++)
		ff_out_array(&o, NULL);
	ck_assert_int_eq(ff_out_end_file(&o), FF_E_NOMEM);
	ck_assert_uint_eq(count_files(), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("out");
	TCase *c = tcase_create("out");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, layout);
	tcase_add_test(c, strings_come_back);
	tcase_add_test(c, broken_utf8_is_replaced);
	tcase_add_test(c, reals_are_short_and_exact);
	tcase_add_test(c, locale_does_not_matter);
	tcase_add_test(c, random_trees_come_back);
	tcase_add_test(c, nesting_beyond_the_reader_fails);
	tcase_add_test(c, saves_and_replaces);
	tcase_add_test(c, empty_text_is_a_file_too);
	tcase_add_test(c, nowhere_to_write);
	tcase_add_test(c, devices_stay_devices);
	tcase_add_test(c, failed_write_leaves_the_old_file);
	tcase_add_test(c, files_and_folders_are_synchronised);
	tcase_add_test(c, a_dropped_file_was_never_there);
	tcase_add_test(c, long_text_does_not_stay_in_memory);
	tcase_add_test(c, long_text_that_cannot_be_written_is_not_there);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
