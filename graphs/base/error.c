/* Errors: the sentence and the exit status.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Ends a sentence that was cut, between two characters, in three dots. */
static void end_cut(char *text, size_t size)
{
	size_t n = size - 4;

	while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	memcpy(text + n, "...", 4);
}

void ff_error_write(struct ff_error *err, int code, const char *fmt, ...)
{
	char text[FF_ERROR_TEXT] = ""; /* arguments may point into err->text */
	va_list args;
	int n;

	if (!err)
		return;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n >= (int)sizeof(text))
		end_cut(text, sizeof(text));
	/* Names come from files: one that holds a line break must not tear the
	 * sentence, nor an escape sequence reach the terminal. */
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	err->code = code;
	memcpy(err->text, text, sizeof(text));
}

int ff_exit_status(int code)
{
	if (code >= 0)
		return 0;
	if (code == FF_E_INPUT)
		return 2;
	return code == FF_E_NOFIT ? 3 : 1;
}
