/* What a command says of itself to programs: --help=FORM, made from the table of its options.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BASE_CLI_FORMS_H
#define FF_BASE_CLI_FORMS_H

#include "ff/command.h"

/* cli_version.c: the version, and the libraries that the build found. */
void ff_cli_print_version(const char *name);
/* cli_manual.c: a page for man, in roff. */
void ff_cli_man(const struct ff_command *c);
/* cli_completion.c: what shells load to complete its command line. */
void ff_cli_bash(const struct ff_command *c);
void ff_cli_zsh(const struct ff_command *c);
void ff_cli_fish(const struct ff_command *c);

#endif
