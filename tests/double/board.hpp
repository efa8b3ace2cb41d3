/* Where ranks leave messages for each other: in this process, or in files where a communicator
 * has ranks in others.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_BOARD_HPP
#define FF_DOUBLE_BOARD_HPP

#include <string>
#include <vector>

namespace twin
{

/* `wide`: for other processes too.  `readers`: how many take it until it goes. */
void board_put(const std::string &folder, const std::string &name, const std::vector<char> &bytes,
		bool wide, int readers);
/* False where it is not there yet. */
bool board_get(const std::string &folder, const std::string &name, bool wide,
		std::vector<char> *ret);
/* Of a wide board: whether it is there. */
bool board_has(const std::string &folder, const std::string &name);
/* Of a wide board, when nobody needs it any more. */
void board_drop(const std::string &folder, const std::string &name);
std::string board_new();
void board_remove(const std::string &folder);

} // namespace twin

#endif
