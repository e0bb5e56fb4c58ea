// The hash tables of the standard library for keys of text. Names come from files of strangers, who
// could choose them so that all collide under the library's own hash, which is the same in every
// run. So all tables with such keys are these. Their order differs from run to run: they are only
// searched, and what is printed or written comes from a list or an ordered map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace moepack {

// A hash table for hostile keys: open addressing, and a hash that differs from run to run, so that
// nobody can craft keys that all collide.

struct KeyHash {
  uint64_t place = 0, rest = 0;
  bool operator==(const KeyHash&) const = default;
};
// The same for equal keys within a run, different in the next run.
KeyHash HashOf(std::string_view key);

// The same for the containers of the standard library, whose own hash of text is the same in every
// run.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return HashOf(text).place; }
};

// Holds small values, not the keys: `Value` is an index of the thing with the key, or the hash
// itself. One value, `free`, stands for no entry.
template <class Value>
class ProbeTable {
 public:
  // For at most `count` entries: twice as many slots plus one, so that searches end, and end soon.
  explicit ProbeTable(Value free, size_t count = 0) : free_(free), slots_(2 * count + 1, free) {}

  // How many entries there may be.
  size_t room() const { return slots_.size() / 2; }
  // The slot of the value that `is_it` accepts, or the free slot where it belongs.
  template <class IsIt>
  Value& Slot(const KeyHash& hash, const IsIt& is_it) {
    return slots_[Find(hash, is_it)];
  }
  template <class IsIt>
  const Value& Slot(const KeyHash& hash, const IsIt& is_it) const {
    return slots_[Find(hash, is_it)];
  }
  bool IsFree(const Value& slot) const { return slot == free_; }
  // Includes free slots.
  const std::vector<Value>& slots() const { return slots_; }

 private:
  template <class IsIt>
  size_t Find(const KeyHash& hash, const IsIt& is_it) const {
    size_t at = hash.place % slots_.size();
    while (slots_[at] != free_ && !is_it(slots_[at])) at = at + 1 == slots_.size() ? 0 : at + 1;
    return at;
  }

  Value free_;
  std::vector<Value> slots_;
};

// `Key` is std::string, or std::string_view where the texts stay elsewhere.
template <class Key, class Value>
using TextMap = std::unordered_map<Key, Value, TextHash, std::equal_to<>>;
template <class Key>
using TextSet = std::unordered_set<Key, TextHash, std::equal_to<>>;

}  // namespace moepack
