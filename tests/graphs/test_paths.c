/* Paths on command lines, names that were mistyped, locks.  SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_main.h"
#include "ff/file.h"
#include "ff/lock.h"
#include "ff/nearest.h"
#include "ff/paths.h"

static char folder[] = "/tmp/ff-paths-XXXXXX";

static void enter(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

static void leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(system(command), 0);
	strcpy(folder, "/tmp/ff-paths-XXXXXX");
}

static void put(const char *path, mode_t mode)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs("old", f);
	fclose(f);
	ck_assert_int_eq(chmod(path, mode), 0);
}

/* -o A and --report B, while GRAPH is read: "" or what is the matter. */
static const char *verdict(const char *a, const char *b, const char *graph)
{
	static struct ff_error err;
	const struct ff_path out[] = {{"-o", a}, {"--report", b}}, in[] = {{"GRAPH", graph}};

	err.text[0] = '\0';
	ck_assert_int_eq(ff_paths_check(out, 2, in, 1, &err) < 0, err.text[0] != '\0');
	return err.text;
}

START_TEST(outputs_that_are_one_file)
{
	enter();
	put("graph", 0644);
	ck_assert_int_eq(symlink("graph", "link"), 0);
	ck_assert_int_eq(link("graph", "hard"), 0);
	ck_assert_str_eq(verdict("a", "b", "graph"), "");
	ck_assert_str_eq(verdict("a", NULL, "graph"), "");
	ck_assert_str_eq(verdict("a", "./a", "graph"), "-o and --report are the same file, ./a");
	ck_assert_str_eq(verdict("-", "-", "graph"), "-o and --report are the same file, -");
	ck_assert_str_eq(verdict("-", "a", "-"), "");
	ck_assert_str_eq(verdict("a", "graph", "graph"),
			"--report would replace GRAPH, which is read: graph");
	ck_assert_str_eq(verdict("link", NULL, "graph"),
			"-o would replace GRAPH, which is read: link");
	ck_assert_str_eq(verdict("hard", NULL, "graph"),
			"-o would replace GRAPH, which is read: hard");
	ck_assert_str_eq(verdict("/dev/null", "/dev/null", "/dev/null"), "");
	ck_assert_int_eq(access("a", F_OK), -1);
	leave();
}
END_TEST

START_TEST(outputs_that_cannot_be_written)
{
	enter();
	ck_assert_str_eq(verdict("no/a", NULL, "graph"),
			"no/a: cannot be written: No such file or directory");
	ck_assert_str_eq(verdict(".", NULL, "graph"), ".: cannot be written: Is a directory");
	ck_assert_int_eq(mkfifo("pipe", 0600), 0);
	ck_assert_str_eq(verdict("pipe", NULL, "graph"), ""); /* and nobody reads it */
	leave();
}
END_TEST

START_TEST(ranks_that_share_a_pipe)
{
	const struct ff_path in[] = {{"GRAPH", "-"}};
	struct ff_error err;

	ck_assert_int_eq(ff_paths_check_shared(in, 1, 1, &err), FF_OK);
	ck_assert_int_eq(ff_paths_check_shared(in, 1, 2, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text,
			"GRAPH -: is no regular file, so that not each of 2 ranks could read it");
}
END_TEST

START_TEST(a_file_stays_as_private_as_it_was)
{
	struct ff_file f;
	struct ff_error err;
	struct stat st;

	enter();
	put("old", 0600);
	ck_assert_int_eq(ff_file_open("old", &f, &err), FF_OK);
	ck_assert_int_eq(ff_file_write(&f, "new", 3, &err), FF_OK);
	ck_assert_int_eq(ff_file_commit(&f, &err), FF_OK);
	ck_assert_int_eq(stat("old", &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	leave();
}
END_TEST

static const char *meant(const char *word)
{
	static const char *const names[] = {"alexnet", "inception_v3", "mlp", "resnet50", "rnn"};
	static struct ff_nearest near;

	ff_nearest_init(&near, word);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		ff_nearest_try(&near, names[i]);
	ff_nearest_hint(&near);
	return near.name;
}

START_TEST(nearest_names)
{
	ck_assert_str_eq(meant("alxenet"), "alexnet"); /* two changed places */
	ck_assert_str_eq(meant("inceptionv3"), "inception_v3");
	ck_assert_str_eq(meant("resnet"), "resnet50");
	ck_assert_str_eq(meant("inception"), "inception_v3"); /* its beginning */
	ck_assert_str_eq(meant("mpl"), "mlp");
	ck_assert_str_eq(meant("mlpp"), "mlp");
	ck_assert_str_eq(meant("AlexNet"), "alexnet"); /* in either case */
	ck_assert_str_eq(meant("MLP"), "mlp");
	ck_assert_str_eq(meant("rm"), ""); /* nearly all of it would be wrong */
	ck_assert_str_eq(meant("gpt2"), "");
	ck_assert_str_eq(meant(""), "");
}
END_TEST

/* Whether another process gets the lock that this one has or not. */
static bool another_takes(const char *path)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct ff_lock l = {.fd = -1};
		struct ff_error err;
		int code = ff_lock_take(path, path, &l, &err);

		ff_lock_drop(&l);
		_exit(code == FF_OK ? 0 : code == FF_E_INPUT ? 1 : 2);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0;
}

START_TEST(one_at_a_time)
{
	struct ff_lock l = {.fd = -1}, other;
	char self[64];
	struct ff_error err;

	enter();
	ck_assert_int_eq(ff_lock_take("costs", "costs", &l, &err), FF_OK);
	ck_assert(!another_takes("costs"));
	ck_assert_int_eq(
			ff_lock_take("costs", "what", &other, &err), FF_E_INPUT); /* as another's */
	snprintf(self, sizeof(self), "what: process %ld on ", (long)getpid());
	ck_assert_msg(strstr(err.text, self) == err.text, "%s", err.text);
	ck_assert(another_takes("others"));
	ff_lock_drop(&l);
	ff_lock_drop(&l);
	ck_assert_int_eq(access("costs.lock", F_OK), -1);
	put("costs.lock", 0644); /* of one that was killed */
	ck_assert(another_takes("costs"));
	ck_assert_int_eq(ff_lock_take("no/costs", "no", &l, &err), FF_E_IO);
	leave();
}
END_TEST

START_TEST(what_the_dead_have_left_is_taken_away)
{
	enter();
	put(".a.b.ff-4711-0.tmp", 0644);
	put(".a.b.c.ff-4711-0.tmp", 0644); /* of others */
	put(".a.b.ff-4711-0.tmp2", 0644);
	put(".a.b.ff-x.tmp", 0644);
	ff_file_sweep("a.b");
	ck_assert_int_eq(access(".a.b.ff-4711-0.tmp", F_OK), -1);
	ck_assert_int_eq(unlink(".a.b.c.ff-4711-0.tmp") | unlink(".a.b.ff-4711-0.tmp2") |
					 unlink(".a.b.ff-x.tmp"),
			0);
	ff_file_sweep("no/such/folder");
	leave();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("paths");
	TCase *c = tcase_create("all");

	tcase_add_test(c, outputs_that_are_one_file);
	tcase_add_test(c, outputs_that_cannot_be_written);
	tcase_add_test(c, ranks_that_share_a_pipe);
	tcase_add_test(c, a_file_stays_as_private_as_it_was);
	tcase_add_test(c, nearest_names);
	tcase_add_test(c, one_at_a_time);
	tcase_add_test(c, what_the_dead_have_left_is_taken_away);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(make_suite());
}
