// A checkpoint: one or many safetensors or GGUF files of a tree and one tensor table over them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/file.h"
#include "libshard/base/probe_table.h"
#include "libshard/base/result.h"
#include "libshard/base/source_tree.h"
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
};

// kCorrupt when it is not the file whose header was read.
Result<ByteSourcePtr> OpenUnchanged(const SourceFile& file);

// Headers only: opening reads no tensor data. Copyable plain data afterwards.
class Checkpoint {
 public:
  // `source` is a tree (with *.safetensors.index.json, or just *.safetensors), one .safetensors
  // file, or an index file on its own (names_only() is then true: shapes, types and sizes are
  // unknown); or a .gguf, any part of a GGUF set, or a tree with one of them and no safetensors.
  // Refused: an index that names a file outside the tree, a file that the tree's rule forbids, a
  // shard that is missing, index and headers that disagree, one tensor in two shards, parts that do
  // not belong together.
  static Result<Checkpoint> Open(const Source& source);
  // Of this machine.
  static Result<Checkpoint> Open(const fs::path& source);

  // Stands for the checkpoint of `config`, a file of the source's tree and all there is of it:
  // `tensors` as the config promises them. They lie in no file, so nothing can be read of them;
  // their offsets are set here.
  static Result<Checkpoint> Promised(const Source& source, const std::string& config,
                                     std::vector<TensorEntry> tensors);

  // With the weights, config.json and the tokenizer.
  const SourceTreePtr& tree() const { return tree_; }
  // What the user named.
  const fs::path& source() const { return source_; }
  const std::vector<SourceFile>& files() const { return files_; }
  // In order of (file, offset). Names are unique.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const TensorEntry* Find(std::string_view name) const;
  bool names_only() const { return names_only_; }
  // No tensor was seen, see Promised(); files() is then the config alone.
  bool promised() const { return promised_; }
  bool is_gguf() const { return is_gguf_; }
  // Of the first file of a GGUF model, which counts for all; empty for safetensors.
  const GgufMetadata& metadata() const { return metadata_; }
  // Oddities that do not stop the work: files not in the index, a total_size that is off.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Frees the table of tensors: tensors() is then empty. For whoever knows all that is to be read
  // of a large model and goes on for long.
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
