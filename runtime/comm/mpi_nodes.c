/* Collectives in stages over MPI: within each host in shared memory, and between the devices of
 * equal place in theirs by rings.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_nodes.h"

#include <stdlib.h>

#include "stages.h"

int ff_mpi_stages(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, ff_mpi_run *run, struct ff_error *err)
{
	struct ff_stages s;
	char *sums = NULL;
	int code = ff_stages_init(&s, x, me, spread, err);

	if (code == FF_OK && s.sums) {
		sums = malloc((size_t)(s.sums * ff_dtype_bytes(x->type)));
		code = sums ? FF_OK : ff_fail_memory(err);
	}
	for (uint32_t i = 0; i < s.n && code == FF_OK; i++)
		code = run(m, ff_stages_tell(&s, i, sums), err);
	free(sums);
	ff_stages_finish(&s);
	return code;
}
