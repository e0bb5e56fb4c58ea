#include "libshard/pack/model_damage.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/fetch.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// Reads single rows of a tensor as F32.
class SampledRows {
 public:
  SampledRows(const GgufTensor& tensor, std::span<const ByteSourcePtr> sources)
      : tensor_(tensor), sources_(sources), values_(tensor.row_values()) {}

  Result<std::span<const float>> At(uint64_t row) {
    if (tensor_.reader != nullptr) {
      SHARD_CHECK(Make(row));
    } else {
      SHARD_CHECK(Decode(row));
    }
    for (const float value : values_) {
      if (std::isfinite(value)) continue;
      return Error{Code::kCorrupt,
                   Cat(tensor_.name, ": row ", row, ": expected finite values, found ", value)};
    }
    return std::span<const float>(values_);
  }

 private:
  Status Make(uint64_t row) {
    uint64_t skip = row;
    for (const RowRange& range : tensor_.rows) {
      if (skip >= range.count) {
        skip -= range.count;
        continue;
      }
      const uint64_t first = range.first + skip;
      ranges_.clear();
      tensor_.reader->AddReads(first, 1, ranges_);
      SHARD_CHECK(ReadRanges(sources_, ranges_, bytes_));
      return tensor_.reader->Decode({first, 1, bytes_}, values_);
    }
    return NoRow(row);
  }

  Status Decode(uint64_t row) {
    const uint64_t row_bytes = tensor_.stored->BytesFor(values_.size()).value_or(0);
    uint64_t skip = row * row_bytes;
    for (const SourceRange& range : tensor_.sources) {
      if (skip >= range.bytes) {
        skip -= range.bytes;
        continue;
      }
      ranges_ = {range.Part(skip, row_bytes)};
      SHARD_CHECK(ReadRanges(sources_, ranges_, bytes_));
      tensor_.stored->decode(bytes_, values_);
      return Ok();
    }
    return NoRow(row);
  }

  Error NoRow(uint64_t row) const {
    return {Code::kCorrupt, Cat(tensor_.name, ": expected more than ", row, " rows, found fewer")};
  }

  const GgufTensor& tensor_;
  std::span<const ByteSourcePtr> sources_;
  std::vector<float> values_;
  std::vector<SourceRange> ranges_;
  std::vector<std::byte> bytes_;
};

// Sums the energy of rows, and the noise that each type adds to them.
class RowDamage {
 public:
  RowDamage(const GgufTensor& tensor, std::span<const quant::Format* const> types)
      : tensor_(tensor), types_(types), noise_(types.size()), back_(tensor.row_values()) {}

  void Add(uint64_t slice, double weight, std::span<const float> row) {
    std::span<const float> importance;
    if (tensor_.importance != nullptr) importance = tensor_.importance->Row(slice);
    const auto moment = [&](size_t c) { return importance.empty() ? 1.0 : double{importance[c]}; };
    double energy = 0;
    for (size_t c = 0; c < row.size(); ++c) energy += moment(c) * row[c] * row[c];
    energy_ += weight * energy;
    weight_ += weight;
    for (size_t t = 0; t < types_.size(); ++t) {
      const quant::Format& type = *types_[t];
      blocks_.resize(type.BytesFor(row.size()).value_or(0));
      type.encode(row, type.uses_importance ? importance : std::span<const float>(), blocks_);
      type.decode(blocks_, back_);
      double noise = 0;
      for (size_t c = 0; c < row.size(); ++c) {
        const double error = double{row[c]} - back_[c];
        noise += moment(c) * error * error;
      }
      noise_[t] += weight * noise;
    }
  }

  // Weighted mean of a row.
  double MeanEnergy() const { return weight_ > 0 ? energy_ / weight_ : 0; }

  std::vector<double> Relative() const {
    std::vector<double> damage = noise_;
    for (double& each : damage) each = energy_ > 0 ? each / energy_ : 0;
    return damage;
  }

 private:
  const GgufTensor& tensor_;
  std::span<const quant::Format* const> types_;
  std::vector<double> noise_;
  double energy_ = 0, weight_ = 0;
  std::vector<float> back_;
  std::vector<std::byte> blocks_;
};

Status AddSample(const GgufTensor& tensor, const DamageSample& sample, RowDamage& damage) {
  const uint64_t rows = tensor.row_values() == 0 ? 0 : tensor.elements() / tensor.row_values();
  const uint64_t slices = tensor.shape.size() > 2 ? tensor.shape[0] : 1;
  const uint64_t count = std::min<uint64_t>(rows, sample.rows);
  SampledRows reader(tensor, sample.sources);
  for (uint64_t i = 0; i < count; ++i) {
    // The middle of each of `count` equal parts: spread over the matrix, and the same in every run.
    const uint64_t row = (2 * i + 1) * rows / (2 * count);
    const uint64_t slice = row / (rows / slices);
    const double weight = sample.slice_weights.empty() ? 1 : sample.slice_weights[slice];
    SHARD_TRY(const std::span<const float> values, reader.At(row));
    damage.Add(slice, weight, values);
  }
  return Ok();
}

}  // namespace

Result<std::vector<double>> MeasureDamage(const GgufTensor& tensor,
                                          std::span<const quant::Format* const> types,
                                          const DamageSample& sample) {
  RowDamage damage(tensor, types);
  SHARD_CHECK(AddSample(tensor, sample, damage));
  return damage.Relative();
}

Result<double> MeasureRowEnergy(const GgufTensor& tensor, const DamageSample& sample) {
  RowDamage damage(tensor, {});
  SHARD_CHECK(AddSample(tensor, sample, damage));
  return damage.MeanEnergy();
}

namespace {

// Whether writing the tensor changes its numbers.
bool IsEncoded(const GgufTensor& tensor) {
  if (!MayChange(tensor)) return false;
  if (tensor.reader == nullptr && tensor.type == tensor.stored) return false;
  if (tensor.KeepsGrid(tensor.type)) return false;
  return tensor.type->encode != nullptr && tensor.type->decode != nullptr;
}

}  // namespace

Result<std::vector<ByteSourcePtr>> OpenWeights(const MoeModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (checkpoint.names_only() || checkpoint.promised())
    return Error{Code::kUnsupported,
                 Cat(checkpoint.source().string(), ": expected weights to measure, found ",
                     checkpoint.promised() ? "a config" : "names", " alone")};
  std::vector<ByteSourcePtr> sources;
  for (const SourceFile& file : checkpoint.files()) {
    SHARD_TRY(ByteSourcePtr source, OpenUnchanged(file));
    sources.push_back(std::move(source));
  }
  return sources;
}

std::span<const float> SliceWeights(const TypedGguf& typed, const GgufTensor& tensor) {
  if (!typed.imatrix || tensor.shape.size() < 3) return {};
  const auto entry = typed.imatrix->entries.find(tensor.name);
  if (entry == typed.imatrix->entries.end() || entry->second.counts.size() != tensor.shape[0])
    return {};
  return entry->second.counts;
}

Result<double> DamageOfTypes(const MoeModel& model, const TypedGguf& typed, uint32_t sample_rows,
                             size_t jobs) {
  SHARD_TRY(const std::vector<ByteSourcePtr> sources, OpenWeights(model));
  const std::vector<GgufTensor>& tensors = typed.model.tensors;
  std::vector<double> damages(tensors.size());
  const auto measure = [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    if (!IsEncoded(tensors[i])) return Ok();
    SHARD_TRY(const std::vector<double> damage,
              MeasureDamage(tensors[i], std::span(&tensors[i].type, 1),
                            {sources, SliceWeights(typed, tensors[i]), sample_rows}));
    damages[i] = damage[0];
    return Ok();
  };
  SHARD_CHECK(ParallelFor(tensors.size(), jobs, measure));
  // In the order of the tensors, so that threads do not change the rounding.
  return std::accumulate(damages.begin(), damages.end(), 0.0);
}

}  // namespace moepack
