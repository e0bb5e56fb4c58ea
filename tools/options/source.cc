#include "tools/options/source.h"

#include "libshard/base/local_tree.h"

namespace cli {

Result<shard::Source> OpenSource(const std::string& source) { return shard::LocalSource(source); }

}  // namespace cli
