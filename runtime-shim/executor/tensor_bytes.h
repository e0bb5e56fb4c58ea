// The bytes of a tensor in host memory, in one place or in several.
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moepack::runtime {

using ByteView = std::span<const std::byte>;

// All bytes in one place, or each expert's in another: a checkpoint that has experts as tensors of
// their own can so be used where it is mapped. Borrows the bytes.
class TensorBytes {
 public:
  TensorBytes() = default;
  template <class Bytes>
  requires std::convertible_to<const Bytes&, ByteView> TensorBytes(const Bytes& whole)
      : whole_(whole) {}  // NOLINT(google-explicit-constructor)
  // One view for each expert, in the order of axis 0. They are in one place if they follow each
  // other. REQUIRES: they are equally long, and not empty.
  explicit TensorBytes(std::vector<ByteView> experts) : experts_(std::move(experts)) {
    const auto apart = [](ByteView a, ByteView b) { return a.data() + a.size() != b.data(); };
    if (std::adjacent_find(experts_.begin(), experts_.end(), apart) != experts_.end()) return;
    if (!experts_.empty()) whole_ = {experts_[0].data(), size()};
    experts_.clear();
  }

  uint64_t size() const {
    return experts_.empty() ? whole_.size() : experts_.size() * experts_[0].size();
  }
  bool empty() const { return size() == 0; }
  // Tells the tensor from others; null if it is empty.
  const std::byte* first() const { return views()[0].data(); }
  // Bytes [offset, offset + count). REQUIRES: they exist, and are of one expert if experts are in
  // different places.
  ByteView Part(uint64_t offset, uint64_t count) const {
    if (experts_.empty()) return whole_.subspan(offset, count);
    const uint64_t each = experts_[0].size();
    return experts_[offset / each].subspan(offset % each, count);
  }
  // All bytes. REQUIRES: they are in one place.
  ByteView whole() const {
    assert(experts_.empty());
    return whole_;
  }
  // The places, whose bytes follow each other; at least one.
  std::span<const ByteView> views() const {
    return experts_.empty() ? std::span(&whole_, 1) : std::span<const ByteView>(experts_);
  }

 private:
  ByteView whole_;                 // empty if experts are in different places
  std::vector<ByteView> experts_;  // empty if they are not
};

}  // namespace moepack::runtime
