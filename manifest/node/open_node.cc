#include "manifest/node/open_node.h"

#include <system_error>
#include <vector>

#include "libshard/base/descriptor.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/format/gguf_set.h"
#include "libshard/model/linked_model.h"
#include "manifest/document/node_record.h"

namespace manifest {
namespace {

namespace fs = shard::fs;

struct Place {
  fs::path directory;
  std::vector<std::string> names;  // of the GGUF files that would be opened
};

Result<Place> Find(const fs::path& source) {
  std::error_code error;
  if (fs::is_directory(source, error)) {
    SHARD_TRY(std::vector<std::string> names, shard::ListFiles(source, ".gguf"));
    return Place{source, std::move(names)};
  }
  Place place{source.has_parent_path() ? source.parent_path() : ".",
              shard::GgufPartsOf(source.filename().string())};
  if (place.names.size() == 1) place.names.clear();  // a user may name any file
  return place;
}

// Those that lead out of the directory. Files that are not there, or cannot be followed, are left
// to whoever opens them.
std::vector<std::string> FilesOutside(const Place& place) {
  std::vector<std::string> outside;
  for (const std::string& name : place.names) {
    const Status inside = shard::CheckInside(place.directory, name);
    if (!inside && inside.error().code == shard::Code::kCorrupt) outside.push_back(name);
  }
  return outside;
}

// Every one of them is what the record says.
Status CheckVouchedFor(const std::string& directory, const NodeRecord& record,
                       const std::vector<std::string>& names, const shard::ByteReport& report) {
  uint64_t total = 0;
  std::vector<const NodeFileRecord*> files;
  for (const std::string& name : names) {
    files.push_back(record.FindFile(name));
    if (files.back() == nullptr) return shard::CheckInside(directory, name);
    total += files.back()->size;
  }
  shard::ByteProgress progress(report, total);
  for (const NodeFileRecord* file : files) {
    SHARD_CHECK(CheckNodeFile(directory, *file, progress));
  }
  return shard::Ok();
}

}  // namespace

Result<shard::MoeModel> OpenModelOrNode(const std::string& source,
                                        const shard::ModelOptions& options,
                                        const shard::ByteReport& report) {
  SHARD_TRY(const Place place, Find(source));
  const std::vector<std::string> outside = FilesOutside(place);
  if (outside.empty()) return shard::MoeModel::Open(source, options);
  SHARD_TRY(const bool node, shard::IsThere(place.directory / kNodeFile));
  if (!node) return shard::MoeModel::Open(source, options);
  const std::string directory = place.directory.string();
  SHARD_TRY(const NodeRecord record, ReadNodeRecord(directory));
  SHARD_CHECK(CheckVouchedFor(directory, record, outside, report));
  return shard::OpenLinkedModel(source, options);
}

}  // namespace manifest
