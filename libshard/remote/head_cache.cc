#include "libshard/remote/head_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace moepack::remote {

std::list<HeadCache::Entry>::iterator HeadCache::Find(uint64_t key) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.key == key; });
}

void HeadCache::Drop(std::list<Entry>::iterator at) {
  used_ -= at->head->size();
  entries_.erase(at);
}

void HeadCache::Put(uint64_t key, HeadBytes head) {
  const std::lock_guard lock(mutex_);
  if (const auto at = Find(key); at != entries_.end()) Drop(at);
  if (head->size() > capacity_) return;
  while (used_ + head->size() > capacity_) Drop(std::prev(entries_.end()));
  used_ += head->size();
  entries_.push_front({key, std::move(head)});
}

HeadBytes HeadCache::Get(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto at = Find(key);
  if (at == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at);
  return at->head;
}

}  // namespace moepack::remote
