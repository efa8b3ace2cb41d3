/* How ranks end: all together where all know that something failed, else one takes the others
 * along.  Run by mpirun.  SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
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

START_TEST(all_well)
{
	aborts = 0;
	ff_mpi_meet(0, NULL, NULL);
	ck_assert_int_eq(aborts, 0);
}
END_TEST

/* One has the sentence, or all have one, which the first tells; those that are late are waited
 * for. */
START_TEST(all_know)
{
	aborts = told = 0;
	if (rank() == 1)
		for (double start = ff_clock_us(); ff_clock_us() - start < 5e4;)
			;
	ff_mpi_meet(2, _i || rank() == 0 ? tell : NULL, NULL);
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
