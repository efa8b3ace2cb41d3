/* Messages by name.  SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "board.hpp"

namespace twin
{

struct Message {
	std::vector<char> bytes;
	int readers;
};

static std::map<std::string, Message> &messages()
{
	static auto *m = new std::map<std::string, Message>;

	return *m;
}

/* A file appears whole. */
void board_put(const std::string &folder, const std::string &name, const std::vector<char> &bytes,
		bool wide, int readers)
{
	std::string path = folder + "/" + name, part = path + ".part";

	if (!wide) {
		messages()[path] = {bytes, readers};
		return;
	}
	{
		std::ofstream out(part, std::ios::binary);

		out.write(bytes.data(), std::streamsize(bytes.size()));
	}
	rename(part.c_str(), path.c_str());
}

bool board_get(const std::string &folder, const std::string &name, bool wide,
		std::vector<char> *ret)
{
	std::string path = folder + "/" + name;

	if (wide) {
		std::ifstream in(path, std::ios::binary | std::ios::ate);

		if (!in)
			return false;
		ret->resize(size_t(in.tellg()));
		in.seekg(0);
		in.read(ret->data(), std::streamsize(ret->size()));
		return bool(in);
	}
	auto at = messages().find(path);

	if (at == messages().end())
		return false;
	*ret = at->second.bytes;
	if (--at->second.readers == 0)
		messages().erase(at);
	return true;
}

bool board_has(const std::string &folder, const std::string &name)
{
	return access((folder + "/" + name).c_str(), F_OK) == 0;
}

void board_drop(const std::string &folder, const std::string &name)
{
	unlink((folder + "/" + name).c_str());
}

/* What the process that made it did not see removed, as ranks have failed, it removes. */
static struct Made {
	std::vector<std::string> folders;
	pid_t process = getpid();

	~Made()
	{
		for (const std::string &f : folders)
			if (process == getpid())
				board_remove(f);
	}
} made;

std::string board_new()
{
	const char *where = getenv("FF_DOUBLE_FOLDER");
	std::string name = std::string(where ? where : "/dev/shm") + "/ffdouble-XXXXXX";
	char other[] = "/tmp/ffdouble-XXXXXX";
	const char *folder = mkdtemp(name.data());

	if (!folder)
		folder = mkdtemp(other);
	if (folder)
		made.folders.push_back(folder);
	return folder ? folder : "/nowhere";
}

void board_remove(const std::string &folder)
{
	std::error_code ignored;

	if (folder.find("ffdouble-") != std::string::npos)
		std::filesystem::remove_all(folder, ignored);
}

} // namespace twin
