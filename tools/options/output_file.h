// The rules for outputs: none is an input, and no two of one command are the same.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::cli {

// Ends the help of an -o that names a directory.
inline constexpr const char* kOutputDirectoryHelp =
    "It is written as DIR.partial and renamed at the end, or in DIR/.moepack.partial if DIR is "
    "empty, a mount point or the current directory.";

// kInvalidArgument for an output that is one of `inputs` (links are followed, and even with
// `force`), is a directory or a mount point, is in a missing directory or, without `force`, exists.
// Empty inputs are ignored. A command lists its inputs with the AddNamedFiles of the options that
// it has.
Status CheckOutputFile(const std::string& out, const std::vector<std::string>& inputs, bool force);

// Only that it is none of `inputs`, for outputs with other rules.
Status CheckNoInput(const std::string& out, const std::vector<std::string>& inputs);

// CheckOutputFile for a command that also reads the model `source`: no file that is there in its
// directory may be replaced, or, if `source` is one file, none that is read with it.
Status CheckModelOutput(const std::string& out, const std::string& source,
                        std::vector<std::string> inputs, bool force);

// kInvalidArgument unless the name says in which form statistics are written: JSON, or JSON in
// zstd.
Status CheckStatisticsName(const std::string& out);

// Adds what is read with a model that is one file: the other parts of its split set, and what lies
// beside weights. Nothing for a directory or an address.
void AddModelFiles(const std::string& source, std::vector<std::string>& files);

// kInvalidArgument if the directory `out` is one of `inputs`, or holds one. Empty inputs are
// ignored.
Status CheckHoldsNoInput(const std::string& out, const std::vector<std::string>& inputs);

// The error of CheckOutputFile for an output that is an input.
Error OutputIsInput(const std::string& out);

struct NamedOutput {
  const char* option;
  std::string path;
};
// kInvalidArgument if two of the files are one, however their names are spelled.
Status CheckFilesDiffer(const std::vector<NamedOutput>& files);
// kInvalidArgument if two directories are one, or one is inside the other or inside what that one
// is while it is written.
Status CheckDirectoriesApart(const NamedOutput& one, const NamedOutput& other);

}  // namespace moepack::cli
