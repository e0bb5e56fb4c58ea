#include "runtime-shim/tokenizer/utf8.h"

#include "libshard/base/text/utf8.h"

namespace moepack::runtime {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

}  // namespace

std::string RepairUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    out += character.is_utf8 ? text.substr(0, character.bytes) : kReplacement;
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace moepack::runtime
