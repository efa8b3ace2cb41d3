/* Agreement among ranks.  SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include <stdlib.h>
#include <string.h>

int ff_agree_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	return c->gather(c, own, bytes, all, err);
}

int ff_agree_max(struct ff_comm *c, double *v, uint32_t n, struct ff_error *err)
{
	double *all;
	int code;

	if (c->n_ranks == 1 || !n)
		return FF_OK;
	all = malloc((size_t)c->n_ranks * n * sizeof(*all));
	if (!all)
		return ff_fail_memory(err);
	code = c->gather(c, v, n * sizeof(*v), all, err);
	for (uint32_t r = 0; r < c->n_ranks && code == FF_OK; r++)
		for (uint32_t i = 0; i < n; i++)
			if (all[(size_t)r * n + i] > v[i])
				v[i] = all[(size_t)r * n + i];
	free(all);
	return code;
}

int ff_agree_sum(struct ff_comm *c, int64_t *v, uint32_t n, struct ff_error *err)
{
	int64_t *all;
	int code;

	if (c->n_ranks == 1 || !n)
		return FF_OK;
	all = malloc((size_t)c->n_ranks * n * sizeof(*all));
	if (!all)
		return ff_fail_memory(err);
	code = c->gather(c, v, n * sizeof(*v), all, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		v[i] = 0;
		for (uint32_t r = 0; r < c->n_ranks; r++)
			v[i] += all[(size_t)r * n + i];
	}
	free(all);
	return code;
}

int ff_agree_code(struct ff_comm *c, int code, struct ff_error *err)
{
	int *all, rc;

	if (c->n_ranks == 1)
		return code;
	all = malloc(c->n_ranks * sizeof(*all));
	if (!all)
		return ff_fail_memory(err);
	rc = c->gather(c, &code, sizeof(code), all, err);
	for (uint32_t r = 0; r < c->n_ranks && rc == FF_OK; r++) {
		if (all[r] == FF_OK)
			continue;
		rc = all[r];
		if (r != c->rank) {
			err->code = rc;
			err->text[0] = '\0';
		}
	}
	free(all);
	return rc;
}

/* Of rank r's list and the first rank's. */
static int compare_same(const struct ff_same *a, const struct ff_same *b, uint32_t n, uint32_t r,
		struct ff_error *err)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(a[i].text, b[i].text) != 0)
			return ff_fail(err, FF_E_INPUT,
					"ranks 0 and %u were started with unequal %s: %s and %s", r,
					b[i].name, a[i].text, b[i].text);
	return FF_OK;
}

int ff_agree_same(struct ff_comm *c, const struct ff_same *own, uint32_t n, struct ff_error *err)
{
	struct ff_same *all;
	int code;

	if (c->n_ranks == 1)
		return FF_OK;
	all = calloc((size_t)c->n_ranks * n + 1, sizeof(*all));
	if (!all)
		return ff_fail_memory(err);
	code = c->gather(c, own, n * sizeof(*own), all, err);
	for (uint32_t r = 1; r < c->n_ranks && code == FF_OK; r++)
		code = compare_same(all, all + (size_t)r * n, n, r, err);
	if (code < 0 && c->rank != 0)
		err->text[0] = '\0';
	free(all);
	return code;
}

int ff_agree_hash(struct ff_comm *c, uint64_t hash, struct ff_error *err)
{
	uint64_t *all = calloc(c->n_ranks, sizeof(*all));
	int code;

	if (!all)
		return ff_fail_memory(err);
	code = ff_agree_gather(c, &hash, sizeof(hash), all, err);
	for (uint32_t r = 0; r < c->n_ranks && code == FF_OK; r++)
		if (all[r] != all[0])
			code = ff_fail(err, FF_E_RUN,
					"ranks 0 and %u have different schedules; all need the "
					"same files and the same kind of processor",
					r);
	free(all);
	return code;
}
