#include "libshard/convert/unit_columns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Source: BailingMoeModel of llama.cpp's convert_hf_to_gguf.py; modeling_bailing_moe.py takes the
// larger of the two instead of their sum.
constexpr float kLeastLength = 1e-7f;

class Units : public RowReader {
 public:
  Units(RowReaderPtr base, const Checkpoint& checkpoint)
      : RowReader(base->rows(), base->row_values()), base_(std::move(base)) {
    std::vector<SourceRange> ranges;
    base_->AddReads(0, rows(), ranges);
    for (const SourceRange& range : ranges) {
      // A checkpoint promised by a config has no files.
      if (range.file < checkpoint.files().size())
        files_.emplace(range.file, checkpoint.files()[range.file]);
    }
  }

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    base_->AddReads(first, count, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    SHARD_TRY(const std::vector<float>* const lengths, Lengths());
    SHARD_CHECK(base_->Decode(rows, out));
    for (; !out.empty(); out = out.subspan(lengths->size())) {
      std::transform(lengths->begin(), lengths->end(), out.begin(), out.begin(),
                     [](float length, float value) { return value / length; });
    }
    return Ok();
  }
  RowRoom Room() const override {
    RowRoom room = base_->Room();
    room.fixed += row_values() * (sizeof(double) + sizeof(float)) + RowsAtOnce() * RowRoomOf(room);
    return room;
  }
  std::string Describe() const override { return Cat("unit columns (", base_->Describe(), ")"); }

 private:
  using Opened = std::map<uint32_t, ByteSourcePtr>;

  uint64_t RowRoomOf(const RowRoom& room) const {
    return room.per_row + row_values() * sizeof(float);
  }

  uint64_t RowsAtOnce() const {
    const bool far =
        std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file.second.far; });
    return std::max<uint64_t>(1, (far ? kFarScanStep : kNearScanStep) / RowRoomOf(base_->Room()));
  }

  Result<const std::vector<float>*> Lengths() const {
    std::call_once(once_, [this] { lengths_ = Measure(); });
    if (!*lengths_) return lengths_->error();
    return &**lengths_;
  }

  Result<std::vector<float>> Measure() const {
    Opened opened;
    for (const auto& [number, file] : files_) {
      SHARD_TRY(opened[number], OpenUnchanged(file));
    }
    std::vector<double> squares(row_values());
    std::vector<std::byte> bytes;
    std::vector<float> values;
    const uint64_t most = RowsAtOnce();
    for (uint64_t first = 0; first < rows(); first += most) {
      SHARD_CHECK(CheckInterrupt());
      const uint64_t count = std::min(most, rows() - first);
      SHARD_CHECK(Read(opened, first, count, bytes));
      values.resize(count * row_values());
      SHARD_CHECK(base_->Decode({first, count, bytes}, values));
      for (size_t i = 0; i < values.size(); ++i)
        squares[i % squares.size()] += static_cast<double>(values[i]) * values[i];
    }
    std::vector<float> lengths;
    for (const double square : squares)
      lengths.push_back(static_cast<float>(std::sqrt(square)) + kLeastLength);
    return lengths;
  }

  Status Read(const Opened& opened, uint64_t first, uint64_t count,
              std::vector<std::byte>& bytes) const {
    std::vector<SourceRange> ranges;
    base_->AddReads(first, count, ranges);
    bytes.resize(ReadBytes(*base_, first, count));
    std::span<std::byte> to = bytes;
    for (const SourceRange& range : ranges) {
      SHARD_CHECK(opened.at(range.file)->ReadAt(range.offset, to.first(range.bytes)));
      to = to.subspan(range.bytes);
    }
    return Ok();
  }

  RowReaderPtr base_;
  std::map<uint32_t, SourceFile> files_;  // the files that the base reads
  mutable std::once_flag once_;
  mutable std::optional<Result<std::vector<float>>> lengths_;  // of the columns, once measured
};

}  // namespace

RowReaderPtr UnitColumns(RowReaderPtr base, const Checkpoint& checkpoint) {
  return std::make_shared<Units>(std::move(base), checkpoint);
}

}  // namespace moepack
