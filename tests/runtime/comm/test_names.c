/* Names of memory that ranks share: one that somebody has already is neither used nor taken away,
 * and none is left.  Run by mpirun.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check_ranks.h"
#include "ff/backend.h"

#define NAMES 8
#define MOST 64 /* ranks */

static const char others[] = "another job's";
static char made[NAMES][64];
static uint32_t n_made, n_taken;
static bool armed; /* MPI, which makes some as well, has started */

static int really_open(const char *name, int flags, mode_t mode)
{
	int (*next)(const char *name, int flags, mode_t mode);

	*(void **)&next = dlsym(RTLD_NEXT, "shm_open");
	return next(name, flags, mode);
}

/* In the place of the C library's: whoever makes something first finds its name taken by another
 * job, which has been a moment earlier. */
int shm_open(const char *name, int flags, mode_t mode)
{
	if (flags & O_CREAT && armed && n_made < NAMES) {
		snprintf(made[n_made], sizeof(made[0]), "%s", name);
		if (!n_made++) {
			int file = really_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

			ck_assert_int_ge(file, 0);
			ck_assert_int_eq(write(file, others, sizeof(others)), sizeof(others));
			close(file);
			n_taken++;
		}
	}
	return really_open(name, flags, mode);
}

static void sum_of_all(struct ff_comm *c)
{
	float own = (float)c->rank + 1, want = (float)(c->n_ranks * (c->n_ranks + 1) / 2);
	struct ff_channel on = {&ff_backend_cpu, NULL};
	uint16_t device[MOST];
	const void *send[MOST] = {NULL};
	void *recv[MOST] = {NULL};
	int64_t count = 1;
	struct ff_collective x = {FF_MOVE_ALL_REDUCE, FF_F32, FF_REDUCE_SUM, c->n_ranks, device,
			send, recv, &count, NULL};
	struct ff_device *dev;
	struct ff_error err;

	for (uint32_t i = 0; i < c->n_ranks; i++)
		device[i] = (uint16_t)i;
	send[c->rank] = recv[c->rank] = &own;
	ck_assert_int_eq(ff_backend_cpu.device.open(0, &dev, &err), FF_OK);
	ck_assert_int_eq(ff_backend_cpu.stream.open(dev, false, &on.stream, &err), FF_OK);
	ck_assert_msg(c->collective(c, &on, &x, &err) == FF_OK &&
					ff_backend_cpu.stream.drain(on.stream, &err) == FF_OK,
			"%s", err.text);
	ck_assert_float_eq(own, want);
	ff_backend_cpu.stream.close(on.stream);
	ff_backend_cpu.device.close(dev);
}

static void check_others(const char *name)
{
	char found[sizeof(others)] = "";
	int file = really_open(name, O_RDWR, 0);

	ck_assert_msg(file >= 0, "another job's memory is gone");
	ck_assert_int_eq(read(file, found, sizeof(found)), sizeof(found));
	ck_assert_str_eq(found, others);
	close(file);
}

START_TEST(taken)
{
	struct ff_error err;
	struct ff_comm *c;

	ck_assert_msg(ff_comm_mpi(&c, &err) == FF_OK, "%s", err.text);
	ck_assert_str_eq(c->name, "mpi shared");
	armed = true;
	sum_of_all(c);
	armed = false;
	ck_assert_uint_eq(n_taken, c->rank == 0);
	for (uint32_t i = 0; i < n_made; i++) {
		if (i < n_taken) {
			check_others(made[i]);
			shm_unlink(made[i]);
			continue;
		}
		ck_assert_int_lt(really_open(made[i], O_RDWR, 0), 0);
		ck_assert_int_eq(errno, ENOENT);
	}
	c->destroy(c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("names");
	TCase *t = tcase_create("shared");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, taken);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_ranks(suite());
}
