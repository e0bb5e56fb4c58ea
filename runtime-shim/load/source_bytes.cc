#include "runtime-shim/load/source_bytes.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "manifest/write/open_bundle.h"

namespace moepack::runtime {

Result<FilePtr> MapAgain(const SourceFile& file) {
  SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(file));
  SHARD_TRY(MappedFile mapped, MappedFile::Map(*source));
  return std::make_shared<const MappedFile>(std::move(mapped));
}

void SourceBytes::Add(uint32_t file, uint64_t offset, ByteView view) {
  if (!view.empty()) stretches_.insert_or_assign({file, offset}, view);
}

Status SourceBytes::Find(const SourceRange& range, std::vector<ByteView>& views) const {
  uint64_t at = range.offset, left = range.bytes;
  while (left > 0) {
    auto next = stretches_.upper_bound({range.file, at});
    const bool before = next != stretches_.begin() && (--next)->first.first == range.file;
    const uint64_t skip = before ? at - next->first.second : 0;
    if (!before || skip >= next->second.size()) {
      return Error{Code::kMismatch,
                   Cat(left, " bytes at ", at, ": expected in one of the parts, found in none"),
                   manifest::kCorruptHint};
    }
    const ByteView view = next->second.subspan(skip, std::min(left, next->second.size() - skip));
    if (!views.empty() && views.back().data() + views.back().size() == view.data()) {
      views.back() = {views.back().data(), views.back().size() + view.size()};
    } else {
      views.push_back(view);
    }
    at += view.size();
    left -= view.size();
  }
  return Ok();
}

}  // namespace moepack::runtime
