#include "libshard/format/checkpoint.h"

#include <algorithm>

#include "libshard/base/descriptor.h"
#include "libshard/base/limits.h"
#include "libshard/base/not_fetched.h"
#include "libshard/base/text.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/linked_checkpoint.h"
#include "libshard/format/read_header.h"

namespace shard {
namespace {

// A path given by the user that is no checkpoint gets the reason, not just "not found".
Error NoCheckpoint(const fs::path& source) {
  std::error_code error;
  const std::string expected =
      ": expected model.safetensors.index.json, *.safetensors or *.gguf, found ";
  if (fs::exists(source / "distribution.json", error)) {
    return Error{Code::kInvalidArgument,
                 Cat(source.string(), expected, "a distribution that moepack wrote"),
                 "name the checkpoint it was made from, or use verify, diff or assemble"};
  }
  return Error{Code::kNotFound, Cat(source.string(), expected, "none of them")};
}

}  // namespace

// Gathers files and tensors, then hands out a finished Checkpoint.
class CheckpointBuilder {
 public:
  CheckpointBuilder(const fs::path& source, const fs::path& root) {
    out_.source_ = source;
    out_.root_ = root;
  }

  // Room for as many tensors, where the number is known.
  void Reserve(size_t tensors) { out_.tensors_.reserve(tensors); }

  Status AddFile(const std::string& name) {
    SHARD_TRY(const InputFile file, InputFile::Open(out_.root_ / name));
    SHARD_TRY(SafetensorsHeader header, ReadSafetensorsHeader(file, file.path().string()));
    return Append(name, file, header.data_start, header.tensors);
  }

  // All parts of one model, in order; the metadata of the first counts.
  Status AddGguf(const std::vector<std::string>& names) {
    out_.is_gguf_ = true;
    std::vector<GgufMetadata> metadata;
    std::vector<GgufPart> parts;
    for (const std::string& name : names) {
      SHARD_TRY(const InputFile file, InputFile::Open(out_.root_ / name));
      SHARD_TRY(GgufHeader header, ReadGgufHeader(file, file.path().string()));
      parts.push_back({.path = file.path(), .tensors = header.tensors.size()});
      metadata.push_back(std::move(header.metadata));
      SHARD_CHECK(Append(name, file, header.data_start, header.tensors));
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].metadata = &metadata[i];
    SHARD_CHECK(CheckGgufSet(parts));
    out_.metadata_ = std::move(metadata.front());
    return Ok();
  }

  Status CheckAgainst(const CheckpointIndex& index) {
    uint64_t total = 0;
    for (const TensorEntry& tensor : out_.tensors_) {
      const std::string& file = out_.files_[tensor.file].name;
      const std::string* found = index.FileOf(tensor.name);
      total += tensor.bytes;
      if (found != nullptr && *found == file) continue;
      return Error{
          Code::kCorrupt,
          Cat(index.path.string(), ": weight_map: tensor ", Quoted(tensor.name), ": expected ",
              file, " which holds it, found ", found == nullptr ? "no entry" : *found)};
    }
    for (const auto& [tensor, file] : index.file_of) {
      if (out_.Find(tensor) != nullptr) continue;
      return Error{Code::kCorrupt,
                   Cat((out_.root_ / index.shards[file]).string(), ": tensor ", Quoted(tensor),
                       ": expected by ", index.path.filename().string(),
                       ", found no such tensor in the file")};
    }
    if (index.total_size && *index.total_size != total) {
      out_.warnings_.push_back(Cat(index.path.string(), ": total_size: expected ", total,
                                   ", found ", *index.total_size, " (the headers are right)"));
    }
    return Ok();
  }

  // Tensors by name only, from an index whose shards are not here.
  void AddNames(const CheckpointIndex& index) {
    out_.names_only_ = true;
    for (const std::string& name : index.shards) {
      out_.files_.push_back(
          {.path = out_.root_ / name, .name = name, .header_sha256 = {}, .identity = {}});
    }
    for (const auto& [tensor, file] : index.file_of) {
      TensorEntry entry;
      entry.name = tensor;
      entry.file = file;
      out_.tensors_.push_back(std::move(entry));
    }
  }

  void AddPromised(const fs::path& config, std::vector<TensorEntry> tensors) {
    out_.promised_ = true;
    out_.files_.push_back(
        {.path = config, .name = config.filename().string(), .header_sha256 = {}, .identity = {}});
    uint64_t offset = 0;
    for (TensorEntry& tensor : tensors) {
      tensor.offset = offset;
      offset += tensor.bytes;
    }
    out_.files_[0].size = offset;
    out_.tensors_ = std::move(tensors);
  }

  // Names must be unique over all files.
  Status IndexNames() {
    const std::vector<TensorEntry>& tensors = out_.tensors_;
    out_.by_name_ = ProbeTable<uint32_t>(Checkpoint::kNoTensor, tensors.size());
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      uint32_t& slot = out_.by_name_.Slot(HashOf(tensors[i].name), [&](uint32_t at) {
        return tensors[at].name == tensors[i].name;
      });
      if (out_.by_name_.IsFree(slot)) {
        slot = i;
        continue;
      }
      return Error{
          Code::kCorrupt,
          Cat(out_.files_[tensors[i].file].path.string(), ": tensor ", Quoted(tensors[i].name),
              ": expected in one file, found also in ", out_.files_[tensors[slot].file].name)};
    }
    return Ok();
  }

  void Warn(std::string text) { out_.warnings_.push_back(std::move(text)); }
  Checkpoint Take() && { return std::move(out_); }

 private:
  Status Append(const std::string& name, const InputFile& file, uint64_t data_start,
                std::vector<TensorEntry>& tensors) {
    if (!IsSafeRelativePath(name)) {
      return Error{
          Code::kUnsupported,
          Cat(out_.root_.string(), ": name of a file: expected UTF-8 of at most ", kMaxPath,
              " bytes without control characters and \"\\\", found ", Quoted(name)),
          "rename the file: distribution.json could not name it"};
    }
    SHARD_TRY(std::string sha256, Sha256OfStart(file, data_start));
    const auto number = static_cast<uint32_t>(out_.files_.size());
    out_.files_.push_back({.path = file.path(),
                           .name = name,
                           .size = file.size(),
                           .data_start = data_start,
                           .header_sha256 = std::move(sha256),
                           .identity = file.identity()});
    for (TensorEntry& tensor : tensors) {
      tensor.file = number;
      out_.tensors_.push_back(std::move(tensor));
    }
    return Ok();
  }

  Checkpoint out_;
};

namespace {

Status CheckShardsPresent(const fs::path& root, const CheckpointIndex& index) {
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards) {
    SHARD_TRY(const bool there, IsThere(root / shard));
    if (!there) missing.push_back(shard);
  }
  if (missing.empty()) return Ok();
  // Every shard is there for some tensor.
  const auto tensor =
      std::find_if(index.file_of.begin(), index.file_of.end(),
                   [&](const auto& entry) { return index.shards[entry.second] == missing[0]; });
  return Error{
      Code::kNotFound,
      Cat((root / missing[0]).string(), ": expected ", index.shards.size(), " shards named by ",
          index.path.filename().string(), ", found ", index.shards.size() - missing.size(), " (",
          missing.size(), " missing, this one with ", Quoted(tensor->first), ")"),
      "finish the download; list-tensors also takes the index file alone"};
}

Status WarnOfGguf(const fs::path& root, CheckpointBuilder& builder) {
  SHARD_TRY(const std::vector<std::string> names, ListFiles(root, ".gguf"));
  for (const std::string& name : names) {
    builder.Warn(Cat((root / name).string(), ": left out, as there are safetensors beside it"));
  }
  return Ok();
}

Result<Checkpoint> OpenIndexed(const fs::path& source, const fs::path& root,
                               const fs::path& index_path) {
  SHARD_TRY(const CheckpointIndex index, ReadCheckpointIndex(index_path));
  CheckpointBuilder builder(source, root);
  builder.Reserve(index.file_of.size());
  SHARD_CHECK(CheckShardsPresent(root, index));
  for (const std::string& shard : index.shards) {
    SHARD_CHECK(CheckInside(root, shard));
    SHARD_CHECK(builder.AddFile(shard));
  }
  SHARD_CHECK(builder.IndexNames());
  SHARD_CHECK(builder.CheckAgainst(index));
  SHARD_TRY(const std::vector<std::string> present, ListSafetensors(root));
  for (const std::string& name : present) {
    if (std::binary_search(index.shards.begin(), index.shards.end(), name)) continue;
    builder.Warn(Cat((root / name).string(), ": not named by ", index_path.filename().string(),
                     ", left out"));
  }
  SHARD_CHECK(WarnOfGguf(root, builder));
  return std::move(builder).Take();
}

// Where the parts of a GGUF set may lie.
enum class PartLinks : uint8_t { kInside, kAnywhere };

// A file named by the user may be a link to anywhere; what is found beside it may not, unless the
// caller vouches for it.
Result<Checkpoint> OpenGguf(const fs::path& source, const fs::path& root,
                            const std::vector<std::string>& parts, PartLinks links) {
  SHARD_CHECK(CheckGgufPartsPresent(root, parts));
  const bool named = parts.size() == 1 && source != root;
  for (const std::string& part : parts) {
    if (!named && links == PartLinks::kInside) SHARD_CHECK(CheckInside(root, part));
  }
  CheckpointBuilder builder(source, root);
  SHARD_CHECK(builder.AddGguf(parts));
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

Result<Checkpoint> OpenAllSafetensors(const fs::path& directory,
                                      const std::vector<std::string>& names) {
  CheckpointBuilder builder(directory, directory);
  for (const std::string& name : names) {
    SHARD_CHECK(CheckInside(directory, name));
    SHARD_CHECK(builder.AddFile(name));
  }
  SHARD_CHECK(builder.IndexNames());
  SHARD_CHECK(WarnOfGguf(directory, builder));
  return std::move(builder).Take();
}

Result<Checkpoint> OpenDirectory(const fs::path& directory, PartLinks links) {
  SHARD_TRY(const std::optional<fs::path> index, FindCheckpointIndex(directory));
  if (index) return OpenIndexed(directory, directory, *index);
  SHARD_TRY(const std::vector<std::string> names, ListSafetensors(directory));
  if (!names.empty()) return OpenAllSafetensors(directory, names);
  SHARD_TRY(const std::vector<std::string> parts, FindGgufModel(directory));
  if (parts.empty()) return NoCheckpoint(directory);
  return OpenGguf(directory, directory, parts, links);
}

// With all shards beside it an index stands for its directory; without any of them it is read for
// its names.
Result<Checkpoint> OpenIndexFile(const fs::path& source, const fs::path& root) {
  SHARD_TRY(const CheckpointIndex index, ReadCheckpointIndex(source));
  bool any = false;
  for (const std::string& shard : index.shards) {
    SHARD_TRY(const bool there, IsThere(root / shard));
    any = any || there;
  }
  if (any) return OpenIndexed(source, root, source);
  CheckpointBuilder builder(source, root);
  builder.AddNames(index);
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

Result<Checkpoint> OpenAny(const fs::path& source, PartLinks links) {
  std::error_code error;
  SHARD_TRY(const bool there, IsThere(source));
  if (!there) {
    return Error{Code::kNotFound, Cat(source.string(), ": no such file or directory"),
                 RemoteSourceHint(source.string())};
  }
  if (fs::is_directory(source, error)) return OpenDirectory(source, links);
  const fs::path root = source.has_parent_path() ? source.parent_path() : fs::path(".");
  const std::string name = source.filename().string();
  if (name.ends_with(".index.json")) return OpenIndexFile(source, root);
  if (name.ends_with(".gguf")) return OpenGguf(source, root, GgufPartsOf(name), links);
  if (!name.ends_with(".safetensors")) return NoCheckpoint(source);
  CheckpointBuilder builder(source, root);
  SHARD_CHECK(builder.AddFile(name));
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const fs::path& source) {
  return OpenAny(source, PartLinks::kInside);
}

Result<Checkpoint> OpenLinkedCheckpoint(const fs::path& source) {
  return OpenAny(source, PartLinks::kAnywhere);
}

Result<Checkpoint> Checkpoint::Promised(const fs::path& source, const fs::path& config,
                                        std::vector<TensorEntry> tensors) {
  CheckpointBuilder builder(source, config.has_parent_path() ? config.parent_path() : ".");
  builder.AddPromised(config, std::move(tensors));
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

const TensorEntry* Checkpoint::Find(std::string_view name) const {
  const uint32_t index =
      by_name_.Slot(HashOf(name), [&](uint32_t at) { return tensors_[at].name == name; });
  return by_name_.IsFree(index) ? nullptr : &tensors_[index];
}

void Checkpoint::ForgetTensors() {
  tensors_ = {};
  by_name_ = {};
}

Status Checkpoint::CheckUnchanged() const {
  for (const SourceFile& source : files_) {
    SHARD_TRY(const InputFile file, InputFile::Open(source.path));
    if (file.identity() == source.identity) continue;
    return Error{Code::kCorrupt,
                 Cat(source.path.string(), ": the file was changed while it was read"),
                 "wait until whatever writes it (a download?) is done, then run the command again"};
  }
  return Ok();
}

}  // namespace shard
