#include "libshard/base/files/sentencepiece_space.h"

namespace moepack {

std::string MarksToSpaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t start = 0; start < text.size();) {
    const size_t mark = text.find(kSpaceMark, start);
    out += text.substr(start, mark - start);
    if (mark == text.npos) break;
    out += ' ';
    start = mark + kSpaceMark.size();
  }
  return out;
}

}  // namespace moepack
