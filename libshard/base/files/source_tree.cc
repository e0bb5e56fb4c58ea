#include "libshard/base/files/source_tree.h"

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack {

Result<std::string> SourceTree::ReadText(const std::string& file, uint64_t limit) const {
  SHARD_TRY(const ByteSourcePtr source, Open(file));
  return moepack::ReadText(*source, limit);
}

Error LeadsOutside(const std::string& tree, const std::string& file) {
  return {Code::kCorrupt,
          Cat(tree, ": name of a file: expected one inside of it, found ", Quoted(file))};
}

}  // namespace moepack
