#include "runtime-shim/load/whole_tensors.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/format/safetensors.h"
#include "libshard/model/expert_name.h"
#include "libshard/model/layer_experts.h"

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
                 manifest::kDamagedHint};
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
               manifest::kDamagedHint};
}

Status WholeTensors::AddAbsent(
    const std::function<std::string(const std::string& tensor)>& file_of) {
  // One tensor of each kind and layer represents all; its key is the name with expert 0.
  std::map<std::string, std::pair<size_t, uint32_t>> kinds;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::string& name = tensors_[i].entry.name;
    const TensorClass found = matcher_.Classify(name);
    const auto layer = found.layer ? layers_.find(*found.layer) : layers_.end();
    if (found.rule == nullptr || !found.expert || layer == layers_.end()) continue;
    SHARD_TRY(std::string kind, RenumberExpert(matcher_, name, 0));
    kinds.emplace(std::move(kind), std::pair(i, layer->second));
  }
  for (const auto& [kind, like] : kinds) {
    for (uint32_t id = 0; id < like.second; ++id) {
      SHARD_TRY(std::string name, RenumberExpert(matcher_, kind, id));
      if (index_.contains(name)) continue;
      WholeTensor absent = tensors_[like.first];
      std::string file = file_of(name);
      if (file.empty()) file = files_[absent.entry.file];
      absent.entry.name = std::move(name);
      SHARD_CHECK(AddTensor(file, std::move(absent)));
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

}  // namespace moepack::runtime
