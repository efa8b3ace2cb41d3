/* Groups of devices over MPI: each gets its own communicator at first use; as all ranks walk the
 * same schedule in the same order, its members come to that together.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "mpi_group.h"

#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

static int group_open(struct ff_comm_mpi *m, uint32_t n, const uint16_t *device, MPI_Comm *ret,
		struct ff_error *err)
{
	MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
	MPI_Comm comm = MPI_COMM_NULL;
	int *ranks = malloc(n * sizeof(*ranks)), code;
	/* equal on all members, and different for groups that may be opened at
	 * the same time by others */
	int tag = (int)(device[0] + 31 * n) & 0x7fff;

	if (!ranks)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		ranks[i] = device[i];
	if ((code = ff_mpi_check(MPI_Comm_group(m->world, &all), "MPI_Comm_group", err)) == FF_OK &&
			(code = ff_mpi_check(MPI_Group_incl(all, (int)n, ranks, &some),
					 "MPI_Group_incl", err)) == FF_OK &&
			(code = ff_mpi_check(MPI_Comm_create_group(m->world, some, tag, &comm),
					 "MPI_Comm_create_group", err)) == FF_OK)
		code = ff_mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN),
				"MPI_Comm_set_errhandler", err);
	if (some != MPI_GROUP_NULL)
		MPI_Group_free(&some);
	if (all != MPI_GROUP_NULL)
		MPI_Group_free(&all);
	free(ranks);
	if (code == FF_OK)
		*ret = comm;
	else if (comm != MPI_COMM_NULL)
		MPI_Comm_free(&comm);
	return code;
}

static void group_close(struct ff_comm_mpi *m, struct ff_mpi_group *g)
{
	if (g->comm != MPI_COMM_NULL && g->comm != m->world)
		MPI_Comm_free(&g->comm);
	free(g);
}

int ff_mpi_group_find(struct ff_comm_mpi *m, const struct ff_collective *x,
		struct ff_mpi_group **ret, struct ff_error *err)
{
	size_t bytes = x->n_devices * sizeof(*x->device);
	struct ff_mpi_group *g;
	int code = FF_OK;

	for (g = m->groups; g; g = g->next) {
		if (g->n == x->n_devices && !memcmp(g->device, x->device, bytes)) {
			*ret = g;
			return FF_OK;
		}
	}
	g = calloc(1, sizeof(*g) + bytes);
	if (!g)
		return ff_fail_memory(err);
	g->n = x->n_devices;
	memcpy(g->device, x->device, bytes);
	g->comm = MPI_COMM_NULL;
	if (g->n == m->host.base.n_devices)
		g->comm = m->world;
	else
		code = group_open(m, g->n, g->device, &g->comm, err);
	if (code < 0) {
		group_close(m, g);
		return code;
	}
	g->next = m->groups;
	m->groups = g;
	*ret = g;
	return FF_OK;
}

void ff_mpi_groups_close(struct ff_comm_mpi *m)
{
	while (m->groups) {
		struct ff_mpi_group *g = m->groups;

		m->groups = g->next;
		group_close(m, g);
	}
}
