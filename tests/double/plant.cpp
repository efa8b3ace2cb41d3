/* Faults that tests plant: one call of the backend's is made wrong on its way here.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "inside.hpp"

namespace twin
{

bool counting()
{
	static const bool on = getenv("FF_DOUBLE_COUNTS") != nullptr;

	return on;
}

static char fault[64];
static uint64_t at, met;

/* The caller holds the lock, or is alone. */
bool planted(const char *what)
{
	return fault[0] && !strcmp(fault, what) && ++met == at;
}

} // namespace twin

extern "C" bool ff_double_planted(const char *what)
{
	twin::Lock l(twin::mutex);

	return twin::planted(what);
}

extern "C" uint64_t ff_double_plant(const char *what, uint64_t nth)
{
	twin::Lock l(twin::mutex);
	uint64_t before = twin::met;

	snprintf(twin::fault, sizeof(twin::fault), "%s", what);
	twin::at = nth;
	twin::met = 0;
	return before;
}
