// A checkpoint: the safetensors or GGUF files of a tree, with one table of all their tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text_map.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/format/tensor.h"

namespace moepack {

struct SourceFile {
  fs::path path;  // what messages call it; it is opened through `tree`
  std::string name;
  uint64_t size = 0;
  uint64_t data_start = 0;
  std::string header_sha256;  // of the bytes before the tensor data
  std::string identity;       // ByteSource::identity when its header was read
  SourceTreePtr tree;
  std::optional<Origin> origin = std::nullopt;
  bool far = false;  // ByteSource::far
};

// Opens the file again for its data. kCorrupt if it is not the file whose header was read.
Result<ByteSourcePtr> OpenUnchanged(const SourceFile& file);

// Opening a checkpoint reads headers and no tensor data. The result is plain data that can be
// copied.
class Checkpoint {
 public:
  // `source` is a tree (with *.safetensors.index.json, or just *.safetensors), one .safetensors
  // file, or an index file on its own (names_only() is then true: shapes, types and sizes are
  // unknown); or a .gguf, any part of a GGUF set, or a tree with one of them and no safetensors.
  // Refused: an index that names a file outside the tree, a file that the tree's rule forbids, a
  // shard that is missing, index and headers that disagree, one tensor in two shards, parts that do
  // not belong together.
  static Result<Checkpoint> Open(const Source& source);
  // The same for a path on this machine.
  static Result<Checkpoint> Open(const fs::path& source);

  // Makes a checkpoint of which only `config`, a file in the source's tree, exists. `tensors` are
  // those that the config promises; they are in no file, so their data cannot be read. Their
  // offsets are set here.
  static Result<Checkpoint> Promised(const Source& source, const std::string& config,
                                     std::vector<TensorEntry> tensors);

  // The tree with the weights, config.json and the tokenizer.
  const SourceTreePtr& tree() const { return tree_; }
  // The path that the user named.
  const fs::path& source() const { return source_; }
  const std::vector<SourceFile>& files() const { return files_; }
  // All tensors in the order of (file, offset). Names are unique.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* Find(std::string_view name) const;
  bool names_only() const { return names_only_; }
  // True for a checkpoint made by Promised(); files() then has only the config.
  bool promised() const { return promised_; }
  bool is_gguf() const { return is_gguf_; }
  // The metadata of a GGUF model's first file, which applies to the whole set, with the types that
  // llama.cpp reads (gguf_key_types.h); empty for safetensors.
  const GgufMetadata& metadata() const { return metadata_; }
  // Oddities that do not prevent work: files that are not in the index, a wrong total_size.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Frees the table, so that tensors() is empty. Long runs call it once they know everything they
  // will read, because a large model's table is large.
  void ForgetTensors();

  // kCorrupt if any file is no longer what it was when it was opened.
  Status CheckUnchanged() const;

 private:
  SourceTreePtr tree_;
  fs::path source_;
  std::vector<SourceFile> files_;
  std::vector<TensorEntry> tensors_;
  static constexpr uint32_t kNoTensor = UINT32_MAX;
  ProbeTable<uint32_t> by_name_ = ProbeTable<uint32_t>(kNoTensor);  // indexes into tensors_
  bool names_only_ = false, is_gguf_ = false, promised_ = false;
  GgufMetadata metadata_;
  std::vector<std::string> warnings_;

  friend class CheckpointBuilder;
};

}  // namespace moepack
