/* The one thing that a signal may write to.  SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked, at_once;
static const char *volatile command;
static void (*volatile leave_by)(void);

static void say(const char *text)
{
	/* whoever does not read it gets no second one */
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void ask(int number)
{
	(void)number;
	asked = 1;
	if (!at_once)
		return;
	say(command);
	say(": ended, as asked, before it had begun\n");
	leave_by();
}

static void listen_to(int number, bool unless_ignored)
{
	struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART}, old;

	if (unless_ignored && sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
		return;
	sigfillset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

void ff_stop_listen(const char *name, enum ff_listener who, void (*leave)(void))
{
	command = name;
	leave_by = leave;
	at_once = who == FF_LISTENER_ALONE;
	listen_to(SIGUSR1, false); /* ff_launch has its ranks begin with that ignored */
	if (who == FF_LISTENER_STARTED)
		return;
	listen_to(SIGTERM, false);
	listen_to(SIGINT, true);
	listen_to(SIGHUP, true);
}

void ff_stop_defer(void)
{
	at_once = 0;
}

bool ff_stop_asked(void)
{
	return asked;
}
