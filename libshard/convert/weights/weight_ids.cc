#include "libshard/convert/weights/weight_ids.h"

#include <memory>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Ids of eight bytes, made ones of four.
class ExpertIdRows : public RowReader {
 public:
  ExpertIdRows(const TensorEntry& entry, std::string where, uint32_t experts)
      : RowReader(entry.Elements() / entry.shape.back(), entry.shape.back()),
        format_(quant::FindFormat("i32")),
        where_(std::move(where)),
        file_(entry.file),
        offset_(entry.offset),
        experts_(experts) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t row_bytes = row_values() * sizeof(int64_t);
    reads.push_back({file_, offset_ + first * row_bytes, count * row_bytes});
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      SHARD_TRY(const uint32_t id, IdAt(rows, i));
      out[i] = static_cast<float>(id);
    }
    return Ok();
  }

  bool CanRepack(const quant::Format* to) const override { return to == format_; }

  Status Repack(const quant::Format*, const RowBytes& rows, std::span<std::byte> out,
                GridReport&) const override {
    for (size_t i = 0; i < out.size() / sizeof(uint32_t); ++i) {
      SHARD_TRY(const uint32_t id, IdAt(rows, i));
      StoreLe(id, out.subspan(i * sizeof(uint32_t)));
    }
    return Ok();
  }

  RowRoom Room() const override { return {kRangeRoom, row_values() * sizeof(int64_t)}; }

  std::string Describe() const override {
    return Cat("expert ids ", file_, " ", offset_, " ", rows(), " ", row_values(), " below ",
               experts_);
  }

 private:
  Result<uint32_t> IdAt(const RowBytes& rows, size_t i) const {
    const auto id = LoadLe<int64_t>(rows.bytes.subspan(i * sizeof(int64_t)));
    if (id >= 0 && id < int64_t{experts_}) return static_cast<uint32_t>(id);
    const uint64_t at = rows.first * row_values() + i;
    return Error{Code::kCorrupt,
                 Cat(where_, ": expert id at [", at / row_values(), ", ", at % row_values(),
                     "]: expected a number from 0 to ", int64_t{experts_} - 1, ", found ", id)};
  }

  const quant::Format* format_;
  std::string where_;
  uint32_t file_;
  uint64_t offset_;
  uint32_t experts_;
};

}  // namespace

Result<Weight> ReadExpertIds(const WeightSource& source, const StoredWeight& stored,
                             uint32_t experts) {
  const TensorEntry& entry = *stored.main();
  SHARD_CHECK(CheckPartType(source, entry, {"I64", "I32"}));
  if (entry.bytes == 0 || entry.shape.size() != 2) {
    return Error{Code::kCorrupt, Cat(source.Where(entry), ": shape: expected [vocabulary, experts ",
                                     "per token], found ", FormatShape(entry.shape))};
  }
  Weight weight{entry.shape, quant::FindFormat("i32"), nullptr, nullptr, &entry};
  if (entry.dtype == "I32") {
    weight.plain = &entry;
  } else {
    weight.reader = std::make_shared<ExpertIdRows>(entry, source.Where(entry), experts);
  }
  return weight;
}

}  // namespace moepack
