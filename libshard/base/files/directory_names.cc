#include "libshard/base/files/directory_names.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace moepack {

Result<std::vector<std::string>> NamesIn(const std::filesystem::path& directory) {
  return NamesIn(Descriptor(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                 directory);
}

Result<std::vector<std::string>> NamesIn(Descriptor directory, const std::filesystem::path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(
      directory.valid() ? fdopendir(directory.get()) : nullptr, closedir);
  if (stream == nullptr) return IoError(path, "list", errno);
  (void)directory.Release();  // the stream's now
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
    errno = 0;
  }
  if (errno != 0) return IoError(path, "list", errno);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moepack
