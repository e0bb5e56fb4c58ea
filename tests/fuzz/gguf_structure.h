// Damage that knows the structure of a GGUF file: one field is changed, or a metadata pair or
// tensor is duplicated, removed or moved, with or without adjusting the counts.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "tests/fuzz/gguf_places.h"
#include "tests/fuzz/mutation.h"

namespace fuzz {

inline constexpr size_t kTensorCountAt = 8, kPairCountAt = 16;

inline void PutNumber(std::string& file, size_t at, size_t bytes, uint64_t value) {
  if (at + bytes <= file.size()) std::memcpy(file.data() + at, &value, bytes);
}

inline void ChangeField(std::string& file, const GgufPlaces::Field& field, Random& random) {
  uint64_t value = 0;
  std::memcpy(&value, file.data() + field.at, field.bytes);
  const uint64_t others[] = {0,
                             1,
                             value + 1,
                             value - 1,
                             value * 2,
                             value ^ 8,
                             value + 32,
                             random.Below(64),
                             0x7fffffff,
                             0xffffffff,
                             uint64_t{1} << 32,
                             uint64_t{1} << 62,
                             uint64_t{1} << 63,
                             ~uint64_t{0}};
  PutNumber(file, field.at, field.bytes, others[random.Below(std::size(others))]);
}

// Repeats, removes or swaps whole entries. Half of the time the count is adjusted.
inline void ChangeEntries(std::string& file, const GgufPlaces& places, Random& random) {
  const auto& entries = places.entries();
  const auto entry = entries[random.Below(entries.size())];
  const std::string text = file.substr(entry.begin, entry.end - entry.begin);
  const size_t count_at = entry.is_tensor ? kTensorCountAt : kPairCountAt;
  uint64_t count = 0;
  std::memcpy(&count, file.data() + count_at, sizeof(count));
  const bool counts = random.Below(2) == 0;
  const size_t kind = random.Below(3);
  if (kind == 0) {
    if (counts) PutNumber(file, count_at, 8, count + 1);
    file.insert(entry.begin, text);
  } else if (kind == 1) {
    if (counts) PutNumber(file, count_at, 8, count - 1);
    file.erase(entry.begin, text.size());
  } else {
    const auto other = entries[random.Below(entries.size())];
    if (other.begin <= entry.begin) return;
    const std::string second = file.substr(other.begin, other.end - other.begin);
    file.replace(other.begin, second.size(), text);
    file.replace(entry.begin, text.size(), second);
  }
}

// A file with one to three changes; anything other than a GGUF is returned unchanged.
inline std::string ChangeGguf(const std::string& file, uint64_t seed) {
  Random random(seed);
  std::string out = file;
  for (size_t changes = 1 + random.Below(3); changes > 0; --changes) {
    const GgufPlaces places(out);
    if (places.fields().empty() || places.entries().empty()) break;
    if (random.Below(3) == 0) {
      ChangeEntries(out, places, random);
    } else {
      ChangeField(out, places.fields()[random.Below(places.fields().size())], random);
    }
  }
  return out;
}

}  // namespace fuzz
