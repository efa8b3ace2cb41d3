/* Rings through a mesh of links, found by trying: with 8 devices of a few links each that is soon
 * done.  SPDX-License-Identifier: Apache-2.0 */
#include "mesh.h"

#include <string.h>

struct search {
	uint8_t left[FF_MOST_PAIRED][FF_MOST_PAIRED]; /* links that no ring has */
	uint8_t device[FF_MOST_PAIRED], n;
	bool used[FF_MOST_PAIRED]; /* on the way of the ring under way */
	uint8_t best, most;        /* rings found; more there cannot be */
};

static void rings(struct search *s, uint8_t found);

/* The ring under way has come to `at` by `length` devices. */
static void extend(struct search *s, uint8_t at, uint8_t length, uint8_t found)
{
	uint8_t first = s->device[0];

	if (length == s->n && s->left[at][first]) {
		bool used[FF_MOST_PAIRED];

		memcpy(used, s->used, sizeof(used));
		s->left[at][first]--;
		s->left[first][at]--;
		rings(s, (uint8_t)(found + 1));
		s->left[at][first]++;
		s->left[first][at]++;
		memcpy(s->used, used, sizeof(used));
	}
	for (uint8_t i = 1; i < s->n && length < s->n && s->best < s->most; i++) {
		uint8_t next = s->device[i];

		if (s->used[next] || !s->left[at][next])
			continue;
		s->used[next] = true;
		s->left[at][next]--;
		s->left[next][at]--;
		extend(s, next, (uint8_t)(length + 1), found);
		s->left[at][next]++;
		s->left[next][at]++;
		s->used[next] = false;
	}
}

static void rings(struct search *s, uint8_t found)
{
	if (found > s->best)
		s->best = found;
	if (s->best >= s->most)
		return;
	memset(s->used, 0, sizeof(s->used));
	s->used[s->device[0]] = true;
	extend(s, s->device[0], 1, found);
}

static bool chain(const struct search *s, bool *used, uint8_t at, uint8_t length)
{
	if (length == s->n)
		return true;
	for (uint8_t i = 0; i < s->n; i++) {
		uint8_t next = s->device[i];
		bool found;

		if (used[next] || !s->left[at][next])
			continue;
		used[next] = true;
		found = chain(s, used, next, (uint8_t)(length + 1));
		used[next] = false;
		if (found)
			return true;
	}
	return false;
}

static bool has_chain(const struct search *s)
{
	for (uint8_t i = 0; i < s->n; i++) {
		bool used[FF_MOST_PAIRED] = {false};

		used[s->device[i]] = true;
		if (chain(s, used, s->device[i], 1))
			return true;
	}
	return false;
}

/* A ring takes two links of each of its devices. */
static uint8_t most_rings(const struct search *s)
{
	uint32_t least = UINT8_MAX;

	for (uint8_t i = 0; i < s->n; i++) {
		uint32_t sum = 0;

		for (uint8_t k = 0; k < s->n; k++)
			sum += s->left[s->device[i]][s->device[k]];
		least = sum / 2 < least ? sum / 2 : least;
	}
	return (uint8_t)least;
}

static uint8_t least_links(const struct search *s)
{
	uint8_t least = UINT8_MAX;

	for (uint8_t i = 0; i < s->n; i++)
		for (uint8_t k = 0; k < i; k++) {
			uint8_t links = s->left[s->device[i]][s->device[k]];

			least = links < least ? links : least;
		}
	return least;
}

void ff_mesh_find(const struct ff_mesh *m, struct ff_mesh_ways *ret)
{
	*ret = (struct ff_mesh_ways){0};
	for (uint32_t set = 0; set < 1u << m->n_devices; set++) {
		struct search s = {.n = 0};

		memcpy(s.left, m->links, sizeof(s.left));
		for (uint8_t i = 0; i < m->n_devices; i++)
			if (set >> i & 1)
				s.device[s.n++] = i;
		if (s.n < 2)
			continue;
		ret->joined[set] = least_links(&s);
		ret->chains[set] = has_chain(&s);
		if (s.n == 2) {
			ret->rings[set] = ret->joined[set];
			continue;
		}
		s.most = most_rings(&s);
		rings(&s, 0);
		ret->rings[set] = s.best;
	}
}
