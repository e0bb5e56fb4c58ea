#include "libshard/base/files/unreadable.h"

#include "libshard/base/text/text.h"

namespace moepack {

Error Unreadable(const std::string& where, const std::string& what, const std::string& reason) {
  return {Code::kUnsupported,
          Cat(where, ": expected ", what,
              " that can be read, found one that our own reader refuses: ", reason)};
}

}  // namespace moepack
