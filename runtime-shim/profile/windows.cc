#include "runtime-shim/profile/windows.h"

#include <algorithm>

namespace moepack::runtime {

std::vector<Window> SplitWindows(std::span<const uint32_t> tokens, uint32_t context,
                                 std::optional<uint32_t> bos, bool half) {
  const bool repeat = bos && !tokens.empty() && tokens.front() == *bos;
  std::vector<Window> windows;
  while (!tokens.empty()) {
    Window window;
    const bool again = repeat && !windows.empty();
    if (again && !half) window.tokens.push_back(*bos);
    const size_t taken = std::min(tokens.size(), context - window.tokens.size());
    window.tokens.insert(window.tokens.end(), tokens.begin(),
                         tokens.begin() + static_cast<ptrdiff_t>(taken));
    tokens = tokens.subspan(taken);
    if (again && half) window.tokens.front() = *bos;
    window.first_scored = FirstScored(context, half);
    if (window.tokens.size() > 1 || windows.empty()) windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace moepack::runtime
