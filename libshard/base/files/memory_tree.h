// A tree that is assembled in memory from texts and from sources made elsewhere.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"

namespace moepack {

// Bytes in memory as a source; its identity is their digest.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::string bytes);

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& identity() const override { return identity_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  Status CheckUnchanged() const override { return Ok(); }

 private:
  std::string name_, bytes_, identity_;
};

// Filled first, then used by several threads.
class MemoryTree final : public SourceTree {
 public:
  explicit MemoryTree(std::string name) : name_(std::move(name)) {}

  // A later file of the same name replaces an earlier one.
  void Add(const std::string& file, std::string bytes);
  void Add(const std::string& file, ByteSourcePtr source);

  const std::string& name() const override { return name_; }
  // The name of the source behind it.
  std::string NameOf(const std::string& file) const override;
  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;
  Result<ByteSourcePtr> Open(const std::string& file) const override;
  std::optional<std::filesystem::path> LocalPath(const std::string&) const override {
    return std::nullopt;
  }

 private:
  std::string name_;
  std::map<std::string, ByteSourcePtr> files_;
};

}  // namespace moepack
