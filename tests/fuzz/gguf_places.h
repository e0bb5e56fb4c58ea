// The places of numbers, metadata pairs and tensors in a GGUF file, for code that changes them.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

namespace fuzz {

// Walks a well-formed little-endian file of version 2 or 3 and records these places. Independent of
// our reader.
class GgufPlaces {
 public:
  struct Field {
    size_t at, bytes;  // a number: a count, length, type, dimension or offset
  };
  struct Entry {
    size_t begin, end;
    bool is_tensor;
  };

  explicit GgufPlaces(const std::string& file) : file_(file) {
    if (file.compare(0, 4, "GGUF") != 0) return;
    at_ = 4;
    Number(4);
    tensors_ = Number(8);
    pairs_ = Number(8);
    for (uint64_t i = 0; i < pairs_ && ok_; ++i) Pair();
    for (uint64_t i = 0; i < tensors_ && ok_; ++i) Tensor();
  }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  uint64_t Number(size_t bytes) {
    uint64_t value = 0;
    if (at_ + bytes > file_.size()) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, file_.data() + at_, bytes);
    fields_.push_back({at_, bytes});
    at_ += bytes;
    return value;
  }
  void Skip(uint64_t bytes) {
    if (bytes > file_.size() - at_) {
      ok_ = false;
      return;
    }
    at_ += bytes;
  }
  void Text() { Skip(Number(8)); }
  void Value(uint64_t type, int depth) {
    constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    constexpr uint64_t kText = 8, kArray = 9;
    if (!ok_ || type >= std::size(kBytes) || depth > 2) {
      ok_ = false;
    } else if (type == kText) {
      Text();
    } else if (type == kArray) {
      const uint64_t of = Number(4), count = Number(8);
      for (uint64_t i = 0; i < count && ok_; ++i) Value(of, depth + 1);
    } else {
      (void)Number(kBytes[type]);
    }
  }
  void Pair() {
    const size_t begin = at_;
    Text();
    Value(Number(4), 0);
    if (ok_) entries_.push_back({begin, at_, false});
  }
  void Tensor() {
    const size_t begin = at_;
    Text();
    const uint64_t dimensions = Number(4);
    for (uint64_t i = 0; i < dimensions && ok_; ++i) Number(8);
    Number(4);
    Number(8);
    if (ok_) entries_.push_back({begin, at_, true});
  }

  const std::string& file_;
  size_t at_ = 0;
  uint64_t tensors_ = 0, pairs_ = 0;
  bool ok_ = true;
  std::vector<Field> fields_;
  std::vector<Entry> entries_;
};

}  // namespace fuzz
