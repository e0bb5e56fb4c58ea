// Gives the files of a set, such as the parts of a split GGUF, their names beside each other. The
// first one, without which the others are no model, comes last.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack {

// Moves those files of `from` to `to` that are not there. What is there already has to hold the
// same bytes, as a run leaves that ended between two moves, and stays as it is; otherwise nothing
// is moved, and the error is kInvalidArgument.
Status CompleteSet(const InsideDirectory& from, const InsideDirectory& to,
                   const std::vector<std::string>& names);

// Moves all files, and replaces those of their names but no directories. The first file of an older
// set is removed before any other is replaced, so that files of two sets are never taken for one.
Status ReplaceSet(const InsideDirectory& from, const InsideDirectory& to,
                  const std::vector<std::string>& names);

}  // namespace moepack
