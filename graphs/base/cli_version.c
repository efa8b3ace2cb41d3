/* What was built.  SPDX-License-Identifier: Apache-2.0 */
#include "cli_forms.h"
#include "ff_libraries.h" /* the build's: what it found */

void ff_cli_print_version(const char *name)
{
	printf("%s %s\nbuilt with %s\n", name, FF_VERSION, FF_LIBRARIES);
	if (*FF_WITHOUT)
		printf("without %s\n", FF_WITHOUT);
}
