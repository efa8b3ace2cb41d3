/* Errors.  Who first sees an error writes the sentence; callers forward it;
 * only main() prints it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ERROR_H
#define FF_ERROR_H

#define FF_ERROR_TEXT 512

enum ff_code {
	FF_OK = 0,
	FF_E_INPUT = -1, /* bad usage or bad input: exit status 2 */
	FF_E_NOMEM = -2, /* the host has no memory left: exit status 1 */
	FF_E_IO = -3,    /* a file or the network failed: exit status 1 */
	FF_E_RUN = -4,   /* a kernel, a check or a rank failed: exit status 1 */
	FF_E_NOFIT = -5, /* no strategy fits in memory: exit status 3 */
};

/* One sentence that names the file, the place in it and what was expected. */
struct ff_error {
	int code;
	char text[FF_ERROR_TEXT];
};

/* Writes the sentence into `err`, which may be NULL; a longer one is cut. */
void ff_error_write(struct ff_error *err, int code, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
static inline int ff_error_code(int code)
{
	return code;
}

/* Writes the sentence and is `code`, so that `return ff_fail(err, FF_E_INPUT, "...")`
 * reads as one thought.  A macro, so that compilers and analysers see which code it is. */
#define ff_fail(err, code, ...) (ff_error_write(err, code, __VA_ARGS__), ff_error_code(code))
#define ff_fail_memory(err) ff_fail(err, FF_E_NOMEM, "out of memory")

/* Exit status of a command that ends with `code`: 0, 1, 2 or 3. */
int ff_exit_status(int code);

#endif
