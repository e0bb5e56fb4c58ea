#include "libshard/remote/remote_tree.h"

#include <algorithm>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {

std::string RemoteTree::NameOf(const std::string& file) const { return Cat(name_, "/", file); }

Error RemoteTree::NoSuchFile(const std::string& file) const {
  return {Code::kNotFound, Cat(NameOf(file), ": open: no such file")};
}

Result<ByteSourcePtr> RemoteTree::Open(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name_, file);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = opened_.find(file); at != opened_.end()) return at->second;
  }
  Result<ByteSourcePtr> opened = OpenNew(file);
  if (!opened && opened.error().code != Code::kNotFound) return opened;
  const std::lock_guard lock(mutex_);
  return opened_.emplace(file, std::move(opened))
      .first->second;  // another thread's, if it was first
}

void RemoteTree::Expect(const std::vector<std::string>& files) const {
  (void)ParallelFor(files.size(), client().settings().in_flight, [&](size_t i) -> Status {
    (void)Open(files[i]);
    return CheckInterrupt();
  });
}

uint64_t RemoteTree::from_cache() const {
  return transport_.cache ? transport_.cache->served() : 0;
}

std::vector<std::string> NamesIn(const std::vector<std::string>& names, const std::string& folder,
                                 std::string_view suffix) {
  const std::string prefix = folder.empty() ? "" : Cat(folder, "/");
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const std::string rest = name.substr(prefix.size());
    if (!rest.empty() && rest.find('/') == std::string::npos) found.push_back(rest);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace moepack::remote
