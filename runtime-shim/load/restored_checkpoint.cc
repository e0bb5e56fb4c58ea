#include "runtime-shim/load/restored_checkpoint.h"

#include <cstring>
#include <memory>
#include <string_view>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/model/config.h"
#include "libshard/model/family_find.h"
#include "libshard/model/hf_config.h"
#include "manifest/write/assets.h"
#include "runtime-shim/load/prepare_to_run.h"
#include "runtime-shim/load/whole_tensors.h"

namespace moepack::runtime {

namespace {

constexpr const char* kConfig = "config.json";

// A file with whole tensors. Bytes that no loaded part has cannot be read.
class RestoredFile final : public ByteSource {
 public:
  // Number `number` of the files whose bytes are `bytes`.
  RestoredFile(WholeFile file, uint32_t number, std::shared_ptr<SourceBytes> bytes)
      : file_(std::move(file)),
        identity_(Sha256Hex(file_.header)),
        number_(number),
        bytes_(std::move(bytes)) {
    bytes_->Add(number_, 0, std::as_bytes(std::span(file_.header)));
  }
  RestoredFile(const RestoredFile&) = delete;
  RestoredFile& operator=(const RestoredFile&) = delete;

  const std::string& name() const override { return file_.name; }
  uint64_t size() const override { return file_.size; }
  const std::string& identity() const override { return identity_; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    std::vector<ByteView> views;
    auto found = bytes_->Find({number_, offset, out.size()}, views);
    if (!found) return std::move(found).error().Within(file_.name);
    for (const ByteView view : views) {
      std::memcpy(out.data(), view.data(), view.size());
      out = out.subspan(view.size());
    }
    return Ok();
  }
  // CheckMappedFiles checks mapped parts instead.
  Status CheckUnchanged() const override { return Ok(); }

 private:
  WholeFile file_;
  std::string identity_;
  uint32_t number_;
  std::shared_ptr<SourceBytes> bytes_;
};

// The name of a restored file in the tree. The names ascend, so that a checkpoint numbers its files
// alike.
std::string RestoredName(uint32_t number) {
  const std::string digits = Cat(number);
  return Cat(std::string(10 - digits.size(), '0'), digits, ".safetensors");
}

// Finds the family of the model without looking at its tensors.
Result<std::shared_ptr<const Family>> FamilyOf(const std::string& config_path,
                                               const ModelConfig& config,
                                               const ModelOptions& options) {
  if (!options.family_file.empty()) {
    SHARD_TRY(Family family, ReadFamilyFile(options.family_file));
    return std::make_shared<const Family>(std::move(family));
  }
  SHARD_TRY(const Family* const family, FindFamily(config_path, config));
  return std::shared_ptr<const Family>(std::shared_ptr<void>(), family);
}

}  // namespace

class CheckpointRestorer {
 public:
  CheckpointRestorer(const Split& split, const ModelOptions& options)
      : split_(split), options_(options) {}

  Result<RestoredCheckpoint> Run() {
    SHARD_CHECK(AddAssets());
    SHARD_CHECK(OpenParts());
    SHARD_CHECK(AddTensors());
    ModelOptions options = options_;
    options.sample_weights = false;
    const moepack::Source source{split_.path, tree_, ""};
    SHARD_TRY(MoeModel model, MoeModel::Open(source, options));
    out_.model_ = std::make_unique<MoeModel>(std::move(model));
    SHARD_TRY(TypedGguf typed, PrepareToRun(*out_.model_));
    out_.notes_ = GgufNotes(typed);
    out_.gguf_ = std::move(typed.model);
    return std::move(out_);
  }

 private:
  // Adds config and tokenizer, which a distribution has in assets/.
  Status AddAssets() {
    for (const manifest::AssetRecord& asset : split_.manifest.assets) {
      SHARD_TRY(ByteSourcePtr source, split_.tree->Open(asset.file));
      tree_->Add(asset.file.substr(manifest::kAssetDirectory.size()), std::move(source));
    }
    SHARD_TRY(const bool config, tree_->Has(kConfig));
    if (config || !options_.config_file.empty()) return Ok();
    return Error{
        Code::kNotFound,
        Cat(split_.path, ": assets/", kConfig, ": expected it in the manifest, found none"),
        "add the assets with shard-experts --only assets"};
  }

  Status OpenParts() {
    PartOpener opener(split_);
    SHARD_TRY(out_.trunk_, opener.Open(split_.parts.trunk));
    for (const SelectedSet& set : split_.parts.sets) {
      SHARD_TRY(std::vector<OpenedPart> files, opener.Open(set.files));
      out_.sets_.push_back(std::move(files));
    }
    return Ok();
  }

  Status AddTensors() {
    const bool given = !options_.config_file.empty();
    const std::string where = given ? options_.config_file : tree_->NameOf(kConfig);
    SHARD_TRY(const std::string text, given ? ReadTextFile(where, kMaxConfigBytes)
                                            : tree_->ReadText(kConfig, kMaxConfigBytes));
    SHARD_TRY(const ModelConfig config, ParseModelConfig(where, text));
    SHARD_TRY(const auto family, FamilyOf(where, config, options_));
    FamilyMatcher matcher(*family, config.layers);
    WholeTensors tensors(split_.path, split_.manifest.plan.layers, matcher);
    for (const OpenedPart& part : out_.trunk_) SHARD_CHECK(tensors.Add(part));
    for (const auto& files : out_.sets_) {
      for (const OpenedPart& part : files) SHARD_CHECK(tensors.Add(part));
    }
    const FilesByTensor others = OtherFiles();
    SHARD_CHECK(tensors.AddAbsent([&](const std::string& tensor) {
      const auto found = others.find(tensor);
      return found == others.end() ? std::string() : split_.tree->NameOf(*found->second);
    }));
    SHARD_TRY(std::vector<WholeFile> files, tensors.LayOut());
    const auto all = std::make_shared<SourceBytes>();
    for (uint32_t i = 0; i < files.size(); ++i)
      tree_->Add(RestoredName(i), std::make_shared<RestoredFile>(std::move(files[i]), i, all));
    Locate(tensors, *all);
    return Ok();
  }

  // The files of the experts of all groups, loaded or not, by the names of their tensors.
  using FilesByTensor = TextMap<std::string_view, const std::string*>;
  FilesByTensor OtherFiles() const {
    FilesByTensor files;
    for (const manifest::BundleRecord& bundle : split_.manifest.bundles) {
      if (bundle.role != Role::kGroup) continue;
      for (const manifest::TensorRecord& tensor : bundle.tensors)
        files.emplace(tensor.name, &bundle.file);
    }
    return files;
  }

  // Each set reads its experts from its own files, even if another set has them as well.
  void Locate(const WholeTensors& tensors, SourceBytes& all) {
    tensors.LocateSmall(all);
    const auto locate = [&](const std::vector<OpenedPart>& parts, SourceBytes& bytes) {
      for (const OpenedPart& part : parts) {
        tensors.Locate(part, bytes);
        tensors.Locate(part, all);
      }
    };
    locate(out_.trunk_, out_.trunk_bytes_);
    for (const auto& files : out_.sets_) {
      locate(files, out_.bytes_.emplace_back(out_.trunk_bytes_));
    }
  }

  const Split& split_;
  const ModelOptions& options_;
  // Where config and tokenizer are.
  const std::shared_ptr<MemoryTree> tree_ =
      std::make_shared<MemoryTree>(Cat(split_.path, "/assets"));
  RestoredCheckpoint out_;
};

Result<RestoredCheckpoint> RestoredCheckpoint::Open(const Split& split,
                                                    const ModelOptions& options) {
  return CheckpointRestorer(split, options).Run();
}

}  // namespace moepack::runtime
