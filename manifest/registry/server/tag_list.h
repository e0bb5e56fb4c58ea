// A registry's list of the tags of a repository.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::registry {

// The tags of one page, `{"name": ..., "tags": [...]}`, in its order; null, as some registries have
// it, is none. The text may be hostile: kCorrupt for anything that is not a tag.
Result<std::vector<std::string>> ParseTagList(const std::string& where, std::string_view text);

}  // namespace moepack::registry
