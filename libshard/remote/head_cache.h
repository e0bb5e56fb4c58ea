// Keeps the beginnings of files in bounded memory: parsing a header reads it more than once, and no
// reader should cost a second request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace moepack::remote {

using HeadBytes = std::shared_ptr<const std::vector<std::byte>>;

// Keys are the caller's numbers for its files. Safe to use from several threads at once.
class HeadCache {
 public:
  explicit HeadCache(uint64_t capacity) : capacity_(capacity) {}

  // Replaces an earlier one with the same key; the least recently used ones are evicted. One that
  // is larger than the cache is not kept.
  void Put(uint64_t key, HeadBytes head);
  // Null if there is none.
  HeadBytes Get(uint64_t key);

 private:
  struct Entry {
    uint64_t key;
    HeadBytes head;
  };
  void Drop(std::list<Entry>::iterator at);
  std::list<Entry>::iterator Find(uint64_t key);

  std::mutex mutex_;
  uint64_t capacity_, used_ = 0;
  std::list<Entry> entries_;  // the most recently used comes first
};

}  // namespace moepack::remote
