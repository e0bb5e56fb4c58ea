#include "libshard/format/checkpoint.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/format/gguf_key_types.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/read_header.h"

namespace moepack {
namespace {

// No value for a source that is a file, or that is elsewhere.
std::optional<fs::path> LocalFolder(const Source& source) {
  return source.file.empty() ? source.tree->LocalPath("") : std::nullopt;
}

// The snapshots in a folder of the Hugging Face cache (models--<owner>--<name>), by revision; that
// of the branch "main" first. Empty for any other folder.
std::vector<std::string> SnapshotsIn(const Source& source) {
  constexpr size_t kMostListed = 1000;
  std::vector<std::string> names;
  const std::optional<fs::path> folder = LocalFolder(source);
  if (!folder) return names;
  const Result<std::vector<std::string>> found = NamesIn(*folder / "snapshots");
  if (!found) return names;
  for (const std::string& name : *found) {
    std::error_code unknown;
    if (fs::is_directory(*folder / "snapshots" / name, unknown)) names.push_back(name);
    if (names.size() == kMostListed) break;
  }
  const Result<std::string> main = source.tree->ReadText("refs/main", kMostListed);
  const auto first = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return main && main->starts_with(name);
  });
  if (first != names.end()) std::rotate(names.begin(), first, first + 1);
  return names;
}

// Whether the source is the folder `hub` of the cache, or one that holds such folders of models.
bool HoldsCachedModels(const Source& source) {
  const std::optional<fs::path> folder = LocalFolder(source);
  if (!folder) return false;
  const Result<std::vector<std::string>> names = NamesIn(*folder);
  return names && std::any_of(names->begin(), names->end(),
                              [](const std::string& name) { return name.starts_with("models--"); });
}

// Says why the user's path is not a checkpoint, instead of just "not found".
Error NoCheckpoint(const Source& source) {
  const std::string expected =
      ": expected model.safetensors.index.json, *.safetensors or *.gguf, found ";
  if (const std::vector<std::string> snapshots = SnapshotsIn(source); !snapshots.empty()) {
    const std::string others = snapshots.size() == 1 ? ""
                               : snapshots.size() == 2
                                   ? ", or the other one there"
                                   : Cat(", or one of the ", snapshots.size() - 1, " others there");
    return Error{
        Code::kNotFound, Cat(source.named.string(), expected, "a folder of the Hugging Face cache"),
        Cat("name the snapshot: ", (source.named / "snapshots" / snapshots[0]).string(), others)};
  }
  if (HoldsCachedModels(source)) {
    return Error{Code::kNotFound, Cat(source.named.string(), expected, "the cache of Hugging Face"),
                 "name the snapshot of a model: models--OWNER--NAME/snapshots/REVISION below it"};
  }
  const Result<bool> distribution = source.tree->Has("distribution.json");
  if (source.file.empty() && distribution && *distribution) {
    return Error{Code::kInvalidArgument,
                 Cat(source.named.string(), expected, "a distribution that moepack wrote"),
                 "name the checkpoint it was made from, or use verify, diff or assemble"};
  }
  const std::string config = source.file.empty() ? "config.json" : source.file;
  const Result<bool> alone = source.tree->Has(config);
  if (config.ends_with("config.json") && alone && *alone) {
    return Error{Code::kNotFound, Cat(source.named.string(), expected, "a config without weights"),
                 "download the weights, too; list-tensors --summary does with the config"};
  }
  // A web server need not list its files.
  const bool asked = source.tree->traffic().has_value();
  return Error{Code::kNotFound, Cat(source.named.string(), expected, "none of them"),
               asked ? "name the file itself if there is one" : ""};
}

constexpr std::string_view kSafetensorsSuffix = ".safetensors";
// How many headers are in memory at once: a hostile one may have a hundred megabytes.
constexpr size_t kMostHeaders = 4;

}  // namespace

// Gathers files and tensors, then hands out a finished Checkpoint.
class CheckpointBuilder {
 public:
  explicit CheckpointBuilder(const Source& source) {
    out_.source_ = source.named;
    out_.tree_ = source.tree;
  }

  // Reserves room for `tensors` tensors.
  void Reserve(size_t tensors) { out_.tensors_.reserve(tensors); }

  // Reads the headers of several files at once, because parsing them takes most of the time.
  Status AddFiles(const std::vector<std::string>& names) {
    const size_t jobs = std::min(kMostHeaders, CoreCount());
    for (size_t first = 0; first < names.size(); first += jobs) {
      const size_t count = std::min(jobs, names.size() - first);
      std::vector<OpenedFile> opened(count);
      SHARD_CHECK(ParallelFor(count, jobs, [&](size_t i) -> Status {
        const std::string& name = names[first + i];
        SHARD_TRY(const ByteSourcePtr file, out_.tree_->Open(name));
        SHARD_TRY(SafetensorsHeader header, ReadSafetensorsHeader(*file, file->name()));
        SHARD_TRY(opened[i], Describe(name, *file, header.data_start));
        opened[i].tensors = std::move(header.tensors);
        return Ok();
      }));
      for (OpenedFile& file : opened) Append(std::move(file));
    }
    malloc_trim(0);  // frees the threads' parsing arenas, which others do not use
    return Ok();
  }

  // Adds all parts of one model, in order. Only the metadata of the first part counts, because
  // llama.cpp reads it only from there.
  Status AddGguf(const std::vector<std::string>& names) {
    out_.is_gguf_ = true;
    std::vector<GgufMetadata> metadata;
    std::vector<GgufPart> parts;
    for (const std::string& name : names) {
      SHARD_TRY(const ByteSourcePtr file, out_.tree_->Open(name));
      SHARD_TRY(GgufHeader header, ReadGgufHeader(*file, file->name()));
      parts.push_back({.path = file->name(), .tensors = header.tensors.size()});
      metadata.push_back(std::move(header.metadata));
      SHARD_TRY(OpenedFile opened, Describe(name, *file, header.data_start));
      opened.tensors = std::move(header.tensors);
      Append(std::move(opened));
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].metadata = &metadata[i];
    SHARD_CHECK(CheckGgufSet(parts));
    out_.metadata_ = std::move(metadata.front());
    // Everything that reads the keys, and everything written from them, sees llama.cpp's types.
    for (std::string& warning : CorrectGgufTypes(parts[0].path.string(), out_.metadata_))
      out_.warnings_.push_back(std::move(warning));
    return Ok();
  }

  Status CheckAgainst(const CheckpointIndex& index) {
    uint64_t total = 0;
    for (const TensorEntry& tensor : out_.tensors_) total += tensor.bytes;
    if (index.total_size && *index.total_size != total) {
      out_.warnings_.push_back(Cat(index.path.string(), ": total_size: expected ", total,
                                   ", found ", *index.total_size, " (the headers are right)"));
    }
    return IsAsIn(index) ? Ok() : FindDifference(index);
  }

  // Adds tensors by name only, sorted, from an index whose shards are not here.
  void AddNames(CheckpointIndex index) {
    out_.names_only_ = true;
    for (const std::string& name : index.shards) {
      AddNamed(name);
    }
    std::sort(index.file_of.begin(), index.file_of.end());
    for (auto& [tensor, file] : index.file_of) {
      TensorEntry entry;
      entry.name = std::move(tensor);
      entry.file = file;
      out_.tensors_.push_back(std::move(entry));
    }
  }

  void AddPromised(const std::string& config, std::vector<TensorEntry> tensors) {
    out_.promised_ = true;
    AddNamed(config);
    uint64_t offset = 0;
    for (TensorEntry& tensor : tensors) {
      tensor.offset = offset;
      offset += tensor.bytes;
    }
    out_.files_[0].size = offset;
    out_.tensors_ = std::move(tensors);
  }

  // Fills the table of names. A name must not occur twice, in one file or in two.
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
  // Adds a file of which only the name is known.
  void AddNamed(const std::string& name) {
    SourceFile file;
    file.path = out_.tree_->NameOf(name);
    file.name = name;
    file.tree = out_.tree_;
    out_.files_.push_back(std::move(file));
  }

  struct OpenedFile {
    SourceFile file;
    std::vector<TensorEntry> tensors;
  };

  // Whether the index lists what the files hold, and nothing else. Its names are distinct, and so
  // are those of the tensors (IndexNames).
  bool IsAsIn(const CheckpointIndex& index) const {
    return index.file_of.size() == out_.tensors_.size() &&
           std::all_of(index.file_of.begin(), index.file_of.end(), [&](const auto& entry) {
             const TensorEntry* tensor = out_.Find(entry.first);
             return tensor != nullptr &&
                    out_.files_[tensor->file].name == index.shards[entry.second];
           });
  }

  // REQUIRES: !IsAsIn(index).
  Error FindDifference(const CheckpointIndex& index) const {
    const TextMap<std::string_view, uint32_t> listed(index.file_of.begin(), index.file_of.end());
    for (const TensorEntry& tensor : out_.tensors_) {
      const std::string& file = out_.files_[tensor.file].name;
      const auto entry = listed.find(tensor.name);
      const std::string* found = entry == listed.end() ? nullptr : &index.shards[entry->second];
      if (found != nullptr && *found == file) continue;
      return {Code::kCorrupt,
              Cat(index.path.string(), ": weight_map: tensor ", Quoted(tensor.name), ": expected ",
                  file, " which holds it, found ", found == nullptr ? "no entry" : *found)};
    }
    // Each tensor has its entry, so another entry has none.
    const auto stray =
        std::find_if(index.file_of.begin(), index.file_of.end(),
                     [&](const auto& entry) { return out_.Find(entry.first) == nullptr; });
    return {Code::kCorrupt,
            Cat(out_.tree_->NameOf(index.shards[stray->second]), ": tensor ", Quoted(stray->first),
                ": expected by ", index.path.filename().string(),
                ", found no such tensor in the file")};
  }

  Result<OpenedFile> Describe(const std::string& name, const ByteSource& file,
                              uint64_t data_start) const {
    if (!IsSafeRelativePath(name)) {
      return Error{Code::kUnsupported,
                   Cat(out_.tree_->name(), ": name of a file: expected UTF-8 of at most ", kMaxPath,
                       " bytes without control characters and \"\\\", found ", Quoted(name)),
                   "rename the file: distribution.json could not name it"};
    }
    SHARD_TRY(std::string sha256, Sha256OfStart(file, data_start));
    OpenedFile out;
    out.file = {.path = file.name(),
                .name = name,
                .size = file.size(),
                .data_start = data_start,
                .header_sha256 = std::move(sha256),
                .identity = file.identity(),
                .tree = out_.tree_,
                .origin = file.origin(),
                .far = file.far()};
    return out;
  }

  void Append(OpenedFile opened) {
    const auto number = static_cast<uint32_t>(out_.files_.size());
    out_.files_.push_back(std::move(opened.file));
    for (TensorEntry& tensor : opened.tensors) {
      tensor.file = number;
      out_.tensors_.push_back(std::move(tensor));
    }
  }

  Checkpoint out_;
};

namespace {

// The index of another model, beside files that it does not name.
Error StaleIndex(const SourceTree& tree, const CheckpointIndex& index,
                 const std::vector<std::string>& present) {
  return {Code::kNotFound,
          Cat(index.path.string(), ": weight_map: expected ",
              present.size() == 1 ? present[0] : Plural(present.size(), "file"),
              present.size() == 1 ? ", the file of tensors beside it" : " of tensors beside it",
              ", found ", Plural(index.shards.size(), "other file"), ", ", index.shards[0],
              index.shards.size() == 1 ? "," : " first,", " and none of them there"),
          Cat("the index is stale: remove it, or name ",
              present.size() == 1 ? tree.NameOf(present[0]) : "a file of tensors itself")};
}

Status CheckShardsPresent(const SourceTree& tree, const CheckpointIndex& index) {
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards) {
    SHARD_TRY(const bool there, tree.Has(shard));
    if (!there) missing.push_back(shard);
  }
  if (missing.empty()) return Ok();
  if (missing.size() == index.shards.size()) {
    const Result<std::vector<std::string>> present = tree.List("", kSafetensorsSuffix);
    if (present && !present->empty()) return StaleIndex(tree, index, *present);
  }
  // The list of shards comes from the map of tensors, so some tensor names this one.
  const auto tensor =
      std::find_if(index.file_of.begin(), index.file_of.end(),
                   [&](const auto& entry) { return index.shards[entry.second] == missing[0]; });
  return Error{Code::kNotFound,
               Cat(tree.NameOf(missing[0]), ": expected ", Plural(index.shards.size(), "shard"),
                   " named by ", index.path.filename().string(), ", found ",
                   index.shards.size() - missing.size(), " (", missing.size(),
                   " missing, this one with ", Quoted(tensor->first), ")"),
               "finish the download; list-tensors also takes the index file alone"};
}

Status WarnOfGguf(const SourceTree& tree, CheckpointBuilder& builder) {
  SHARD_TRY(const std::vector<std::string> names, tree.List("", ".gguf"));
  for (const std::string& name : names) {
    builder.Warn(Cat(tree.NameOf(name), ": left out, as there are safetensors beside it"));
  }
  return Ok();
}

Result<Checkpoint> OpenIndexed(const Source& source, const CheckpointIndex& index) {
  CheckpointBuilder builder(source);
  builder.Reserve(index.file_of.size());
  source.tree->Expect(index.shards);
  SHARD_CHECK(CheckShardsPresent(*source.tree, index));
  SHARD_CHECK(builder.AddFiles(index.shards));
  SHARD_CHECK(builder.IndexNames());
  SHARD_CHECK(builder.CheckAgainst(index));
  SHARD_TRY(const std::vector<std::string> present, source.tree->List("", kSafetensorsSuffix));
  for (const std::string& name : present) {
    if (std::binary_search(index.shards.begin(), index.shards.end(), name)) continue;
    builder.Warn(Cat(source.tree->NameOf(name), ": not named by ", index.path.filename().string(),
                     ", left out"));
  }
  SHARD_CHECK(WarnOfGguf(*source.tree, builder));
  return std::move(builder).Take();
}

Result<Checkpoint> OpenGguf(const Source& source, const std::vector<std::string>& parts) {
  source.tree->Expect(parts);
  SHARD_CHECK(CheckGgufPartsPresent(*source.tree, parts));
  CheckpointBuilder builder(source);
  SHARD_CHECK(builder.AddGguf(parts));
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

Result<Checkpoint> OpenSafetensors(const Source& source, const std::vector<std::string>& names) {
  CheckpointBuilder builder(source);
  source.tree->Expect(names);
  SHARD_CHECK(builder.AddFiles(names));
  SHARD_CHECK(builder.IndexNames());
  if (source.file.empty()) SHARD_CHECK(WarnOfGguf(*source.tree, builder));
  return std::move(builder).Take();
}

Result<Checkpoint> OpenTree(const Source& source) {
  SHARD_TRY(const std::optional<std::string> name, FindCheckpointIndex(*source.tree));
  if (name) {
    SHARD_TRY(const CheckpointIndex index, ReadCheckpointIndex(*source.tree, *name));
    return OpenIndexed(source, index);
  }
  SHARD_TRY(const std::vector<std::string> names, source.tree->List("", kSafetensorsSuffix));
  if (!names.empty()) return OpenSafetensors(source, names);
  SHARD_TRY(const std::vector<std::string> parts, FindGgufModel(*source.tree));
  if (parts.empty()) return NoCheckpoint(source);
  return OpenGguf(source, parts);
}

// An index with all its shards beside it represents their tree. Without any of them, it only
// provides names.
Result<Checkpoint> OpenIndexFile(const Source& source) {
  SHARD_TRY(CheckpointIndex index, ReadCheckpointIndex(*source.tree, source.file));
  bool any = false;
  for (const std::string& shard : index.shards) {
    SHARD_TRY(const bool there, source.tree->Has(shard));
    any = any || there;
  }
  if (any) return OpenIndexed(source, index);
  CheckpointBuilder builder(source);
  builder.AddNames(std::move(index));
  SHARD_CHECK(builder.IndexNames());
  return std::move(builder).Take();
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const Source& source) {
  const std::string& name = source.file;
  if (name.empty()) return OpenTree(source);
  if (name.ends_with(".index.json")) return OpenIndexFile(source);
  if (name.ends_with(".gguf")) return OpenGguf(source, GgufPartsOf(name));
  if (name.ends_with(kSafetensorsSuffix)) return OpenSafetensors(source, {name});
  return NoCheckpoint(source);
}

Result<Checkpoint> Checkpoint::Open(const fs::path& source) {
  SHARD_TRY(const Source local, LocalSource(source));
  return Open(local);
}

Result<Checkpoint> Checkpoint::Promised(const Source& source, const std::string& config,
                                        std::vector<TensorEntry> tensors) {
  CheckpointBuilder builder(source);
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
  std::vector<TensorEntry>().swap(tensors_);  // assigning {} would keep the memory
  by_name_ = ProbeTable<uint32_t>(kNoTensor);
}

Status Checkpoint::CheckUnchanged() const {
  for (const SourceFile& file : files_) SHARD_CHECK(OpenUnchanged(file));
  return Ok();
}

Result<ByteSourcePtr> OpenUnchanged(const SourceFile& file) {
  SHARD_TRY(ByteSourcePtr source, file.tree->Open(file.name));
  if (source->identity() != file.identity) return ChangedWhileRead(source->name());
  return source;
}

}  // namespace moepack
