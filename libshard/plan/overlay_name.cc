#include "libshard/plan/overlay_name.h"

#include "libshard/plan/plan.h"

namespace moepack {

const char* ExpectedOverlayName(std::string_view text) {
  if (!IsLabel(text)) return "1 to 64 of [A-Za-z0-9._-], the first not a dot";
  if (text == kNoOverlay || text == kAutomaticOverlay)
    return "a name other than none and auto, which are words of --overlay";
  return nullptr;
}

}  // namespace moepack
