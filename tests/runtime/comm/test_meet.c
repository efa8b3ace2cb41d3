/* How ranks end: all together where all know that something failed, else one takes the others
 * along.  Run by mpirun.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "comm/mpi_job.h"
#include "ff/clock.h"

static int aborts; /* the status, once */
static int told;   /* so often */

static void tell(void *ctx)
{
	(void)ctx;
	told++;
}

/* In place of MPI's. */
int MPI_Abort(MPI_Comm comm, int status)
{
	(void)comm;
	aborts = status;
	return MPI_SUCCESS;
}

static int rank(void)
{
	int r;

	MPI_Comm_rank(MPI_COMM_WORLD, &r);
	return r;
}

/* Less than after which a rank that waits tells by itself (mpi_job.c). */
#define SOON_US 2e5
#define TRIES 100

struct meeting {
	int status;
	bool tells;
	double late_us;
};

/* In a round in which no rank had to wait for a processor so long that others lost patience: what
 * a meeting does then is another matter. */
static void meet(const struct meeting *m)
{
	double longest_us = INFINITY;

	for (int i = 0; i < TRIES && longest_us > SOON_US; i++) {
		double start, us;

		MPI_Barrier(MPI_COMM_WORLD);
		aborts = told = 0;
		start = ff_clock_us();
		while (ff_clock_us() - start < m->late_us)
			;
		ff_mpi_meet(m->status, m->tells ? tell : NULL, NULL);
		us = ff_clock_us() - start;
		MPI_Allreduce(&us, &longest_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	}
}

START_TEST(all_well)
{
	meet(&(struct meeting){0});
	ck_assert_int_eq(aborts, 0);
	ck_assert_int_eq(told, 0);
}
END_TEST

/* One has the sentence, or all have one, which the first tells; those that are late are waited
 * for. */
START_TEST(all_know)
{
	meet(&(struct meeting){2, _i || rank() == 0, rank() == 1 ? 5e4 : 0});
	ck_assert_int_eq(aborts, 0);
	ck_assert_int_eq(told, rank() == 0);
}
END_TEST

/* The other one never comes, as it waits for something else. */
START_TEST(one_knows)
{
	double start = ff_clock_us();
	char word = 0;

	aborts = told = 0;
	if (rank() == 0) {
		ff_mpi_meet(3, tell, NULL);
		ck_assert_int_eq(aborts, 3);
		ck_assert_int_eq(told, 1);
		ck_assert_double_gt(ff_clock_us() - start, 5e5);
		MPI_Send(&word, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
	} else {
		MPI_Recv(&word, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		ff_mpi_meet(0, NULL, NULL); /* for the meeting that is under way */
		ck_assert_int_eq(aborts, 0);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("meet");
	TCase *t = tcase_create("ranks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, all_well);
	tcase_add_loop_test(t, all_know, 0, 2);
	tcase_add_test(t, one_knows);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	struct ff_error err;
	int status;

	if (ff_mpi_start(&err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	if (rank() && !freopen("/dev/null", "w", stdout))
		return EXIT_FAILURE;
	status = ff_check_main(suite());
	ff_mpi_finish();
	return status;
}
