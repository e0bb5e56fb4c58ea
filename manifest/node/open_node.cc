#include "manifest/node/open_node.h"

#include <optional>
#include <vector>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/format/gguf_set.h"
#include "manifest/document/node_record.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

// Returns the GGUF files to be opened that lead out of the directory. Missing files and broken
// links are left to the code that opens them.
Result<std::vector<std::string>> FilesOutside(const fs::path& directory,
                                              const moepack::Source& source) {
  std::vector<std::string> names = GgufPartsOf(source.file);
  if (source.file.empty()) {
    SHARD_TRY(names, source.tree->List("", ".gguf"));
  } else if (names.size() == 1) {
    names.clear();  // a file that the user names may be anywhere
  }
  std::erase_if(names, [&](const std::string& name) {
    const Status inside = CheckInside(directory, name);
    return inside || inside.error().code != Code::kCorrupt;
  });
  return names;
}

// Checks that each of the files is listed in the record and has its digest.
Status CheckVouchedFor(const std::string& directory, const NodeRecord& record,
                       const std::vector<std::string>& names, const OnProgress& report) {
  uint64_t total = 0;
  std::vector<const NodeFileRecord*> files;
  for (const std::string& name : names) {
    files.push_back(record.FindFile(name));
    if (files.back() == nullptr) return CheckInside(directory, name);
    total += files.back()->size;
  }
  ProgressCounter progress(report, total);
  for (const NodeFileRecord* file : files) {
    SHARD_CHECK(CheckNodeFile(directory, *file, progress));
  }
  return Ok();
}

}  // namespace

Result<MoeModel> OpenModelOrNode(const moepack::Source& source, const ModelOptions& options,
                                 const OnProgress& report) {
  const std::optional<fs::path> local = source.tree->LocalPath("");
  if (!local) return MoeModel::Open(source, options);
  SHARD_TRY(const std::vector<std::string> outside, FilesOutside(*local, source));
  if (outside.empty()) return MoeModel::Open(source, options);
  SHARD_TRY(const bool node, source.tree->Has(kNodeFile));
  if (!node) return MoeModel::Open(source, options);
  const std::string directory = local->string();
  SHARD_TRY(const NodeRecord record, ReadNodeRecord(directory));
  SHARD_CHECK(CheckVouchedFor(directory, record, outside, report));
  SHARD_TRY(const moepack::Source linked, LocalSource(source.named, LinkRule::kPartsAnywhere));
  return MoeModel::Open(linked, options);
}

}  // namespace moepack::manifest
