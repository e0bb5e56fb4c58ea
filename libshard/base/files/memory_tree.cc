#include "libshard/base/files/memory_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"

namespace moepack {

MemorySource::MemorySource(std::string name, std::string bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)), identity_(Sha256Hex(bytes_)) {}

Status MemorySource::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t there = bytes_.size() - std::min<uint64_t>(offset, bytes_.size());
  if (out.size() > there) return EndsEarly(name_, offset, out.size(), there);
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return Ok();
}

void MemoryTree::Add(const std::string& file, std::string bytes) {
  Add(file, std::make_shared<const MemorySource>(Cat(name_, "/", file), std::move(bytes)));
}

void MemoryTree::Add(const std::string& file, ByteSourcePtr source) {
  files_.insert_or_assign(file, std::move(source));
}

std::string MemoryTree::NameOf(const std::string& file) const {
  const auto found = files_.find(file);
  return found == files_.end() ? Cat(name_, "/", file) : found->second->name();
}

Result<std::vector<std::string>> MemoryTree::List(const std::string& folder,
                                                  std::string_view suffix) const {
  const std::string prefix = folder.empty() ? "" : Cat(folder, "/");
  std::vector<std::string> names;
  for (const auto& [file, source] : files_) {
    if (!file.starts_with(prefix) || !file.ends_with(suffix)) continue;
    const std::string name = file.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(name);
  }
  return names;
}

Result<bool> MemoryTree::Has(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name_, file);
  return files_.contains(file);
}

Result<ByteSourcePtr> MemoryTree::Open(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name_, file);
  const auto found = files_.find(file);
  if (found != files_.end()) return found->second;
  return Error{Code::kNotFound, Cat(NameOf(file), ": open: no such file")};
}

}  // namespace moepack
