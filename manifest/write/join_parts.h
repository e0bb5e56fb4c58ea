// Joins the manifests of several distributions that hold parts of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// A file of an input that goes into the joined distribution unchanged, under the same name.
struct JoinedFile {
  std::string from;  // the input's directory, as it was named
  SourceTreePtr tree;
  std::string file;
  uint64_t size = 0;
  std::string sha256;
  bool asset = false;
};

struct JoinedParts {
  Manifest manifest;              // as written by a single run that makes all these parts
  std::vector<JoinedFile> files;  // bundles, then assets, as in the manifest
};

// Reads the manifests; files are not checked. Whatever is not a part must be the same in all of
// them, and so must a part that several have, which is taken from the first: kMismatch names the
// first thing that differs, with both values. The order of `inputs` does not matter otherwise.
Result<JoinedParts> JoinParts(const std::vector<std::string>& inputs);

}  // namespace moepack::manifest
