// The hash tables of the standard library for keys of text. Names come from files of strangers, who
// could choose them so that all collide under the library's own hash, which is the same in every
// run. So all tables with such keys are these. Their order differs from run to run: they are only
// searched, and what is printed or written comes from a list or an ordered map.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "libshard/base/probe_table.h"

namespace moepack {

// `Key` is std::string, or std::string_view where the texts stay elsewhere.
template <class Key, class Value>
using TextMap = std::unordered_map<Key, Value, TextHash, std::equal_to<>>;
template <class Key>
using TextSet = std::unordered_set<Key, TextHash, std::equal_to<>>;

}  // namespace moepack
