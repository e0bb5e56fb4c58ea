#include "manifest/document/group_range.h"

#include "libshard/base/text.h"

namespace manifest {

shard::Status CheckGroup(const std::string& path, uint64_t group, size_t groups) {
  if (group < groups) return shard::Ok();
  return shard::Error{shard::Code::kInvalidArgument,
                      shard::Cat(path, ": group: expected 0 to ", groups - 1, ", found ", group)};
}

}  // namespace manifest
