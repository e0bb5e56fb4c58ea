#include "runtime-shim/profile/second_moments.h"

#include <cmath>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"

namespace moepack::runtime {
namespace {

constexpr std::string_view kBlock = "blk.";
// DeepSeek-V4's first projection of attention's results: groups of rows have inputs of their own.
constexpr std::string_view kGrouped = ".attn_output_a.weight";

// The number of matrices in a tensor: experts, or the heads of latent attention.
uint64_t MatricesOf(const HostTensor& tensor) {
  uint64_t matrices = 1;
  for (size_t axis = 0; axis + 2 < tensor.shape.size(); ++axis) matrices *= tensor.shape[axis];
  return matrices;
}

// Residual attention multiplies with vectors (executor/residual_mix.h); for llama.cpp these are no
// products.
bool IsScore(std::string_view name) { return name.ends_with("_res_score.weight"); }

void AddSquares(std::span<const float> row, double* sums) {
  for (size_t column = 0; column < row.size(); ++column) {
    const double value = row[column];
    sums[column] += value * value;
  }
}

Error NotFinite(const std::string& name, size_t matrix, bool experts, double sum) {
  const auto place = ParseBlockName(name);
  return {Code::kCorrupt,
          Cat("layer ", place ? place->block : 0, ": inputs of ", Quoted(name),
              experts ? Cat(", expert ", matrix) : std::string(),
              ": expected a sum of squares that F32 holds, found ", sum),
          "the weights of this layer or of one before may be corrupt"};
}

}  // namespace

void SecondMoments::SetWeights(const Weights& weights) {
  for (const HostTensor& tensor : weights.trunk) {
    if (IsScore(tensor.name)) continue;
    places_[tensor.bytes.first()] = {tensor.name, tensor.bytes.size() / MatricesOf(tensor),
                                     MatricesOf(tensor), nullptr,
                                     std::string_view(tensor.name).ends_with(kGrouped)};
  }
  for (const ExpertSet& set : weights.sets) {
    for (const HostTensor& tensor : set.tensors) {
      const std::optional<BlockName> name = ParseBlockName(tensor.name);
      const auto layer = static_cast<uint32_t>(name ? name->block : 0);
      const auto found = weights.moe_layers.find(layer);
      const ExpertIds& ids = IdsOf(set.experts_by_layer, layer);
      if (found == weights.moe_layers.end() || ids.empty()) continue;
      places_[tensor.bytes.first()] = {tensor.name, tensor.bytes.size() / ids.size(), found->second,
                                       &ids};
    }
  }
}

const SecondMoments::Place* SecondMoments::Find(const Matrix& weights) const {
  const auto place = places_.find(LoadedFrom(weights.buffer).first());
  return place == places_.end() ? nullptr : &place->second;
}

bool SecondMoments::Wants(const Matrix& weights) const {
  if (!counting_) return false;
  const Place* place = Find(weights);
  return place != nullptr && place->name.starts_with(kBlock) &&
         (place->grouped || weights.offset % place->matrix_bytes == 0);
}

void SecondMoments::Multiplied(const Matrix& weights, std::span<const float> inputs) {
  const Place* place = Find(weights);
  const size_t width = weights.columns;
  if (moments_.size() <= stream_) moments_.resize(stream_ + 1);
  Moments& moments = moments_[stream_][place->name];
  if (moments.sums.empty()) {
    moments.sums.resize(place->matrices * width);
    moments.counts.resize(place->ids == nullptr ? 1 : place->matrices);
  }
  const uint64_t index = weights.offset / place->matrix_bytes;
  const uint64_t matrix = place->ids == nullptr ? index : (*place->ids)[index];
  double* sums = moments.sums.data() + matrix * width;
  const size_t rows = inputs.size() / width;
  for (size_t row = 0; row < rows; ++row) AddSquares(inputs.subspan(row * width, width), sums);
  // The matrices of a tensor that are not experts all get the same number of rows.
  if (place->ids != nullptr || index == 0)
    moments.counts[place->ids == nullptr ? 0 : matrix] += rows;
}

Result<ImatrixEntries> SecondMoments::EntriesOf(size_t stream) const {
  ImatrixEntries entries;
  if (stream >= moments_.size()) return entries;
  for (const auto& [name, moments] : moments_[stream]) {
    ImatrixEntry& entry = entries[name];
    const size_t matrices = moments.counts.size(), width = moments.sums.size() / matrices;
    for (size_t i = 0; i < moments.sums.size(); ++i) {
      const auto sum = static_cast<float>(moments.sums[i]);
      if (!std::isfinite(sum)) return NotFinite(name, i / width, matrices > 1, moments.sums[i]);
      entry.sums.push_back(sum);
    }
    for (const uint64_t count : moments.counts) entry.counts.push_back(static_cast<float>(count));
  }
  return entries;
}

Result<ImatrixEntries> SecondMoments::Entries() const {
  ImatrixEntries entries;
  for (size_t stream = 0; stream < moments_.size(); ++stream) {
    SHARD_TRY(const ImatrixEntries own, EntriesOf(stream));
    SHARD_CHECK(AddImatrixEntries("importance matrix", own, entries));
  }
  if (!entries.empty()) return entries;
  return Error{Code::kInvalidArgument, "importance matrix: expected products, found none"};
}

}  // namespace moepack::runtime
