/* What MPI's return codes say.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_CHECK_H
#define FF_COMM_MPI_CHECK_H

#include "ff/error.h"

/* FF_E_IO with "<what> failed: <reason>" unless `code` is MPI_SUCCESS. */
int ff_mpi_check(int code, const char *what, struct ff_error *err);

#endif
