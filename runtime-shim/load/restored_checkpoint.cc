#include "runtime-shim/load/restored_checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "libshard/base/file.h"
#include "libshard/base/text.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/model/config.h"
#include "libshard/model/family_find.h"
#include "libshard/recipe/quantize.h"
#include "manifest/write/assets.h"
#include "runtime-shim/load/scratch_directory.h"
#include "runtime-shim/load/whole_tensors.h"

namespace runtime {

using shard::Cat;
using shard::Code;
using shard::Error;
namespace fs = shard::fs;

namespace {

constexpr const char* kConfig = "config.json";
constexpr uint64_t kMaxConfigBytes = 16u << 20;
// Tensors that conversion reads itself: the lengths of a packed matrix.
constexpr uint64_t kReadAtOnce = 64;

// A new file that is written at offsets.
class SparseFile {
 public:
  static shard::Result<SparseFile> Create(const fs::path& path, uint64_t size) {
    SparseFile file(path, open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.fd_ < 0 || ftruncate(file.fd_, static_cast<off_t>(size)) != 0) {
      return Error{Code::kIo, Cat(path.string(), ": ", size, " bytes: ", shard::ErrnoText(errno)),
                   "set TMPDIR to a directory that can hold a sparse file of the model's size"};
    }
    return file;
  }
  SparseFile(SparseFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  SparseFile& operator=(SparseFile&&) = delete;
  ~SparseFile() {
    if (fd_ >= 0) close(fd_);
  }
  shard::Status Write(uint64_t offset, ByteView bytes) const {
    return shard::WriteAt(fd_, path_, offset, bytes);
  }

 private:
  SparseFile(fs::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  fs::path path_;
  int fd_;
};

// The family that the model's names follow, without its tensors.
shard::Result<std::shared_ptr<const shard::Family>> FamilyOf(const std::string& config_path,
                                                             const shard::ModelConfig& config,
                                                             const shard::ModelOptions& options) {
  if (!options.family_file.empty()) {
    SHARD_TRY(shard::Family family, shard::ReadFamilyFile(options.family_file));
    return std::make_shared<const shard::Family>(std::move(family));
  }
  SHARD_TRY(const shard::Family* const family, shard::FindFamily(config_path, config));
  return std::shared_ptr<const shard::Family>(std::shared_ptr<void>(), family);
}

}  // namespace

class CheckpointRestorer {
 public:
  CheckpointRestorer(const Split& split, const shard::ModelOptions& options)
      : split_(split), options_(options) {}

  shard::Result<RestoredCheckpoint> Run() {
    SHARD_TRY(const ScratchDirectory scratch, ScratchDirectory::Make());
    auto done = Restore(scratch.path());
    if (done) return std::move(out_);
    // Nobody knows the temporary file, which is gone when the message is read.
    Error error = std::move(done).error();
    const std::string there = scratch.path().string();
    for (size_t at; (at = error.message.find(there)) != std::string::npos;) {
      error.message.replace(at, there.size(), split_.path);
    }
    if (error.hint.find(there) != std::string::npos) error.hint.clear();
    return error;
  }

 private:
  shard::Status Restore(const fs::path& to) {
    SHARD_CHECK(CopyAssets(to));
    SHARD_CHECK(OpenParts());
    SHARD_CHECK(WriteTensors(to));
    shard::ModelOptions options = options_;
    options.sample_weights = false;
    SHARD_TRY(shard::MoeModel model, shard::MoeModel::Open(to, options));
    out_.model_ = std::make_unique<shard::MoeModel>(std::move(model));
    SHARD_TRY(shard::TypedGguf typed, shard::PrepareGguf(*out_.model_, {}));
    out_.notes_ = shard::GgufNotes(typed);
    out_.gguf_ = std::move(typed.model);
    return shard::Ok();
  }

  // Config and tokenizer, which lie below assets/ in a distribution.
  shard::Status CopyAssets(const fs::path& to) {
    bool config = false;
    for (const manifest::AssetRecord& asset : split_.manifest.assets) {
      const std::string name = asset.file.substr(manifest::kAssetDirectory.size());
      config = config || name == kConfig;
      SHARD_CHECK(shard::CheckInside(split_.path, asset.file));
      const fs::path from = fs::path(split_.path) / asset.file;
      SHARD_TRY(const std::string text, shard::ReadTextFile(from, manifest::kMaxAssetBytes));
      SHARD_CHECK(shard::WriteTextFile(to / name, text));
    }
    if (config || !options_.config_file.empty()) return shard::Ok();
    return Error{
        Code::kNotFound,
        Cat(split_.path, ": assets/", kConfig, ": expected it in the manifest, found none"),
        "add the assets with shard-experts --only assets"};
  }

  shard::Status OpenParts() {
    PartOpener opener(split_);
    SHARD_TRY(out_.trunk_, opener.Open(split_.parts.trunk));
    for (const SelectedSet& set : split_.parts.sets) {
      SHARD_TRY(std::vector<OpenedPart> files, opener.Open(set.files));
      out_.sets_.push_back(std::move(files));
    }
    return shard::Ok();
  }

  shard::Status WriteTensors(const fs::path& to) {
    const std::string config_path =
        options_.config_file.empty() ? (to / kConfig).string() : options_.config_file;
    SHARD_TRY(const std::string text, shard::ReadTextFile(config_path, kMaxConfigBytes));
    SHARD_TRY(const shard::ModelConfig config, shard::ParseModelConfig(config_path, text));
    SHARD_TRY(const auto family, FamilyOf(config_path, config, options_));
    shard::FamilyMatcher matcher(*family, config.layers);
    WholeTensors tensors(split_.path, split_.manifest.plan.layers, matcher);
    for (const OpenedPart& part : out_.trunk_) SHARD_CHECK(tensors.Add(part));
    for (const auto& files : out_.sets_) {
      for (const OpenedPart& part : files) SHARD_CHECK(tensors.Add(part));
    }
    SHARD_CHECK(tensors.AddAbsent());
    SHARD_CHECK(WriteFile(to / "model.safetensors", tensors));
    Locate(tensors);
    return shard::Ok();
  }

  static shard::Status WriteFile(const fs::path& path, WholeTensors& tensors) {
    SHARD_TRY(const std::string header, tensors.LayOut());
    SHARD_TRY(const SparseFile file, SparseFile::Create(path, tensors.file_size()));
    SHARD_CHECK(file.Write(0, std::as_bytes(std::span(header))));
    for (const WholeTensor& tensor : tensors.tensors()) {
      if (tensor.entry.bytes > kReadAtOnce || tensor.sample.size() != tensor.entry.bytes) continue;
      SHARD_CHECK(file.Write(tensor.entry.offset, tensor.sample));
    }
    return shard::Ok();
  }

  // Each set reads its experts from its own files, also those that another set has too.
  void Locate(const WholeTensors& tensors) {
    for (const OpenedPart& part : out_.trunk_) tensors.Locate(part, out_.trunk_bytes_);
    for (const auto& files : out_.sets_) {
      SourceBytes& bytes = out_.bytes_.emplace_back(out_.trunk_bytes_);
      for (const OpenedPart& part : files) tensors.Locate(part, bytes);
    }
  }

  const Split& split_;
  const shard::ModelOptions& options_;
  RestoredCheckpoint out_;
};

shard::Result<RestoredCheckpoint> RestoredCheckpoint::Open(const Split& split,
                                                           const shard::ModelOptions& options) {
  return CheckpointRestorer(split, options).Run();
}

}  // namespace runtime
