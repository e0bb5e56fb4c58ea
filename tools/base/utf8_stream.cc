#include "tools/base/utf8_stream.h"

#include <utility>

#include "libshard/base/text/utf8.h"

namespace moepack::cli {
std::string Utf8Stream::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t whole = held_.size() - UnfinishedBytes(held_);
  std::string ready = held_.substr(0, whole);
  held_.erase(0, whole);
  return ready;
}

std::string Utf8Stream::Rest() { return std::exchange(held_, {}); }

}  // namespace moepack::cli
