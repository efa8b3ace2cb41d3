/* The one thing that a signal may write to.  SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
	(void)number;
	asked = 1;
}

void ff_stop_listen(bool has_starter)
{
	const struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &action, NULL);
	if (has_starter)
		return;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool ff_stop_asked(void)
{
	return asked;
}
