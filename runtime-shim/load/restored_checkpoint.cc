#include "runtime-shim/load/restored_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/format/safetensors.h"
#include "libshard/model/config.h"
#include "libshard/model/family_find.h"
#include "libshard/model/family_match.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_experts.h"
#include "manifest/write/assets.h"
#include "runtime-shim/load/prepare_to_run.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kSmallTensor = 64;

// Scales the length `part` of `held` slices to `count` slices; no value on overflow or a remainder.
std::optional<uint64_t> Stretched(uint64_t part, uint64_t held, uint64_t count) {
  if (held == 0 || part % held != 0) return std::nullopt;
  return CheckedMul(part / held, count);
}

}  // namespace

Status WholeTensors::Add(const OpenedPart& part) {
  for (const manifest::PartTensor& tensor : part.bundle.tensors) {
    SHARD_TRY(WholeTensor whole, Restore(part, tensor));
    SHARD_CHECK(AddTensor(part.bundle.source.path.string(), std::move(whole)));
  }
  return Ok();
}

// Restores the whole expert axis of a packed tensor. All other tensors are already whole.
Result<WholeTensor> WholeTensors::Restore(const OpenedPart& part,
                                          const manifest::PartTensor& tensor) {
  WholeTensor whole{tensor.entry, part.Bytes(tensor), 0};
  const ExpertIds& ids = tensor.record->expert_ids;
  const TensorClass found = matcher_.Classify(tensor.entry.name);
  if (ids.empty() || found.rule == nullptr || found.expert) return whole;
  const std::string where =
      Cat(part.bundle.source.path.string(), ": tensor ", Quoted(tensor.entry.name), ": ");
  const auto axis = AxisIn(tensor.entry.shape, found.rule->expert_axis);
  // If all dimensions before the axis are 1, the experts are stored one after another.
  const auto before = tensor.entry.shape.begin() + axis.value_or(0);
  if (axis &&
      std::any_of(tensor.entry.shape.begin(), before, [](uint64_t size) { return size != 1; })) {
    return Error{Code::kUnsupported,
                 Cat(where, "expert axis: expected the slowest one, found number ", *axis)};
  }
  const auto layer = found.layer ? layers_.find(*found.layer) : layers_.end();
  const uint64_t count = layer == layers_.end() ? 0 : layer->second;
  const uint64_t length = axis ? whole.entry.shape[*axis] : 0;
  const auto stretched = Stretched(length, ids.size(), count);
  const auto bytes = Stretched(whole.entry.bytes, ids.size(), count);
  if (!axis || !stretched || !bytes || ids.back() >= count) {
    return Error{Code::kMismatch,
                 Cat(where, "expected an expert axis for ", ids.size(), " of ",
                     Plural(count, "expert"), ", found shape ", FormatShape(whole.entry.shape)),
                 manifest::kCorruptHint};
  }
  whole.entry.shape[*axis] = *stretched;
  whole.entry.bytes = *bytes;
  whole.expert_count = count;
  return whole;
}

uint32_t WholeTensors::NumberOf(const std::string& file) {
  const auto [place, is_new] = file_numbers_.emplace(file, static_cast<uint32_t>(files_.size()));
  if (is_new) files_.push_back(file);
  return place->second;
}

Status WholeTensors::AddTensor(const std::string& file, WholeTensor tensor) {
  const auto [place, is_new] = index_.emplace(tensor.entry.name, tensors_.size());
  if (is_new) {
    tensor.entry.file = NumberOf(file);
    tensors_.push_back(std::move(tensor));
    return Ok();
  }
  // A refitted group has rows of a router that the trunk has whole: each row then has its place.
  if (tensor.expert_count > 0) tensors_[place->second].expert_count = tensor.expert_count;
  const TensorEntry& known = tensors_[place->second].entry;
  if (known.dtype == tensor.entry.dtype && known.shape == tensor.entry.shape) return Ok();
  return Error{Code::kMismatch,
               Cat(file, ": tensor ", Quoted(known.name), ": expected ", known.dtype, " ",
                   FormatShape(known.shape), " as another part has, found ", tensor.entry.dtype,
                   " ", FormatShape(tensor.entry.shape)),
               manifest::kCorruptHint};
}

std::map<uint32_t, WholeTensors::Experts> WholeTensors::ExpertsByLayer() {
  std::map<uint32_t, Experts> layers;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorClass found = matcher_.Classify(tensors_[i].entry.name);
    if (found.rule == nullptr || !found.expert || !found.layer) continue;
    if (layers_.contains(*found.layer)) layers[*found.layer][*found.expert].push_back(i);
  }
  return layers;
}

Result<bool> WholeTensors::AddListed(const ListedExpert& expert,
                                     const std::map<std::string, size_t>& kinds) {
  std::vector<WholeTensor> absent;
  for (const ListedTensor* listed : expert) {
    const manifest::TensorRecord& record = *listed->record;
    WholeTensor& tensor = absent.emplace_back();
    tensor.entry.name = record.name;
    tensor.entry.dtype = record.dtype;
    tensor.entry.format = quant::FindSafetensorsFormat(record.dtype);
    tensor.entry.shape = record.shape;
    tensor.entry.bytes = record.bytes;
    SHARD_TRY(const std::string kind, RenumberExpert(matcher_, record.name, 0));
    const auto like = kinds.find(kind);
    if (like != kinds.end()) tensor.sample = tensors_[like->second].sample;
    const bool known = tensor.sample.size() == record.bytes;
    if (!known && record.bytes <= kSmallTensor) return false;
  }
  for (size_t i = 0; i < expert.size(); ++i)
    SHARD_CHECK(AddTensor(expert[i]->file, std::move(absent[i])));
  return !expert.empty();
}

Status WholeTensors::AddLike(const std::vector<size_t>& neighbour, uint32_t id) {
  for (const size_t i : neighbour) {
    WholeTensor absent = tensors_[i];
    SHARD_TRY(absent.entry.name, RenumberExpert(matcher_, absent.entry.name, id));
    const std::string file = files_[absent.entry.file];
    SHARD_CHECK(AddTensor(file, std::move(absent)));
  }
  return Ok();
}

Status WholeTensors::AddAbsent(const std::vector<ListedTensor>& listed) {
  const std::map<uint32_t, Experts> layers = ExpertsByLayer();
  std::map<std::string, size_t> kinds;
  for (const auto& [layer, experts] : layers) {
    for (const auto& [id, tensors] : experts) {
      for (const size_t i : tensors) {
        SHARD_TRY(std::string kind, RenumberExpert(matcher_, tensors_[i].entry.name, 0));
        kinds.emplace(std::move(kind), i);
      }
    }
  }
  std::map<std::pair<uint32_t, uint32_t>, ListedExpert> lists;
  for (const ListedTensor& tensor : listed) {
    if (index_.contains(tensor.record->name)) continue;
    const TensorClass found = matcher_.Classify(tensor.record->name);
    if (found.rule != nullptr && found.layer && found.expert)
      lists[{*found.layer, *found.expert}].push_back(&tensor);
  }
  for (const auto& [layer, experts] : layers) {
    for (uint32_t id = 0; id < layers_.at(layer); ++id) {
      if (experts.contains(id)) continue;
      SHARD_TRY(const bool added, AddListed(lists[{layer, id}], kinds));
      if (!added) SHARD_CHECK(AddLike(experts.begin()->second, id));
    }
  }
  return Ok();
}

Result<std::vector<WholeFile>> WholeTensors::LayOut() {
  std::vector<std::vector<TensorEntry>> entries(files_.size());
  uint64_t size = 0;
  for (const WholeTensor& tensor : tensors_) {
    entries[tensor.entry.file].push_back(tensor.entry);
    const auto sum = CheckedAdd(size, tensor.entry.bytes);
    // File offsets are signed 64-bit numbers; a lower limit leaves room for sums.
    if (!sum || *sum >= uint64_t{1} << 62) {
      return Error{Code::kCorrupt, Cat(path_, ": expected a model that fits into a file, found ",
                                       "tensors beyond it")};
    }
    size = *sum;
  }
  std::vector<WholeFile> files;
  for (size_t i = 0; i < files_.size(); ++i) {
    WholeFile& file = files.emplace_back();
    file.name = files_[i];
    file.header = BuildSafetensorsHeader(entries[i], {});
    file.size = file.header.size();
  }
  for (WholeTensor& tensor : tensors_) {
    uint64_t& end = files[tensor.entry.file].size;
    tensor.entry.offset = end;
    end += tensor.entry.bytes;
  }
  return files;
}

void WholeTensors::LocateSmall(SourceBytes& bytes) const {
  for (const WholeTensor& tensor : tensors_) {
    const bool whole = tensor.sample.size() == tensor.entry.bytes;
    if (whole && tensor.entry.bytes <= kSmallTensor)
      bytes.Add(tensor.entry.file, tensor.entry.offset, tensor.sample);
  }
}

void WholeTensors::Locate(const OpenedPart& part, SourceBytes& bytes) const {
  for (const manifest::PartTensor& tensor : part.bundle.tensors) {
    const WholeTensor& whole = tensors_[index_.at(tensor.entry.name)];
    const ByteView view = part.Bytes(tensor);
    if (whole.expert_count == 0) {
      bytes.Add(whole.entry.file, whole.entry.offset, view);
      continue;
    }
    const uint64_t slice = whole.entry.bytes / whole.expert_count;
    uint64_t at = 0;
    ExpertIds ids = tensor.record->expert_ids;
    if (ids.empty()) {  // the trunk's
      ids.resize(whole.expert_count);
      std::iota(ids.begin(), ids.end(), 0u);
    }
    for (const uint32_t id : ids) {
      bytes.Add(whole.entry.file, whole.entry.offset + id * slice, view.subspan(at, slice));
      at += slice;
    }
  }
}

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
    SHARD_CHECK(tensors.AddAbsent(ListedExperts()));
    SHARD_TRY(std::vector<WholeFile> files, tensors.LayOut());
    const auto all = std::make_shared<SourceBytes>();
    for (uint32_t i = 0; i < files.size(); ++i)
      tree_->Add(RestoredName(i), std::make_shared<RestoredFile>(std::move(files[i]), i, all));
    Locate(tensors, *all);
    return Ok();
  }

  // The tensors of all groups, loaded or not.
  std::vector<ListedTensor> ListedExperts() const {
    std::vector<ListedTensor> listed;
    TextSet<std::string_view> names;  // groups may share experts
    for (const manifest::BundleRecord& bundle : split_.manifest.bundles) {
      if (bundle.role != Role::kGroup) continue;
      for (const manifest::TensorRecord& tensor : bundle.tensors) {
        if (names.insert(tensor.name).second)
          listed.push_back({&tensor, split_.tree->NameOf(bundle.file)});
      }
    }
    return listed;
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
