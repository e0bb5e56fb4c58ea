#include "libshard/format/output_file.h"

namespace moepack {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kHead:
      return "head";
    case Role::kTrunk:
      return "trunk";
    case Role::kRouters:
      return "routers";
    case Role::kGroup:
      return "group";
    case Role::kOverlay:
      return "overlay";
    case Role::kRemainder:
      return "remainder";
  }
  return "";
}

}  // namespace moepack
