#include "manifest/document/group_range.h"

#include "libshard/base/text/text.h"

namespace moepack::manifest {

Status CheckGroup(const std::string& path, uint64_t group, size_t groups) {
  if (group < groups) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(path, ": group: expected 0 to ", groups - 1, ", found ", group)};
}

}  // namespace moepack::manifest
