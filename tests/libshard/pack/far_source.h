// A remote source that counts what is read from it.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/files/memory_tree.h"

namespace moepack {

class FarSource final : public ByteSource {
 public:
  FarSource(std::string name, std::string bytes, Origin origin = {})
      : bytes_(std::move(name), std::move(bytes)), origin_(std::move(origin)) {
    if (origin_.url.empty()) origin_.url = "https://host/" + bytes_.name();
  }

  const std::string& name() const override { return bytes_.name(); }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& identity() const override { return bytes_.identity(); }
  bool far() const override { return true; }
  std::optional<Origin> origin() const override { return origin_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const std::lock_guard lock(mutex_);
    reads_.emplace_back(offset, out.size());
    return bytes_.ReadAt(offset, out);
  }
  Status CheckUnchanged() const override { return Ok(); }

  // Offsets and sizes since the last call.
  std::vector<std::pair<uint64_t, uint64_t>> TakeReads() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }

 private:
  MemorySource bytes_;
  Origin origin_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<uint64_t, uint64_t>> reads_;
};

}  // namespace moepack
