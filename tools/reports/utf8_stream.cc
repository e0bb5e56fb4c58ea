#include "tools/reports/utf8_stream.h"

#include <utility>

namespace cli {
namespace {

// Bytes of the character that starts with `lead`; 1 for what starts none.
size_t CharacterLength(unsigned char lead) {
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 1;
}

// Bytes at the end that begin a character and do not end it.
size_t Unfinished(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    return CharacterLength(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string Utf8Stream::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t whole = held_.size() - Unfinished(held_);
  std::string ready = held_.substr(0, whole);
  held_.erase(0, whole);
  return ready;
}

std::string Utf8Stream::Rest() { return std::exchange(held_, {}); }

}  // namespace cli
