#include "libshard/convert/tokenizers/sentencepiece.h"

#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr uint32_t kPieces = 1;                       // of ModelProto
constexpr uint32_t kText = 1, kScore = 2, kType = 3;  // of ModelProto.SentencePiece
constexpr size_t kMaxPieces = 1u << 22;
constexpr uint32_t kMaxType = 6;
constexpr int kVarintBytes = 10;

// How a field's value is stored: the low three bits of its tag.
enum class Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;      // kVarint
  std::string_view bytes;  // other wire types
};

// Reads the fields of a message one by one. `base` is where it begins in the file.
class MessageReader {
 public:
  MessageReader(const std::string& path, std::string_view bytes, size_t base)
      : path_(path), bytes_(bytes), base_(base) {}

  bool AtEnd() const { return at_ == bytes_.size(); }
  size_t offset() const { return base_ + at_; }

  Result<Field> Next() {
    SHARD_TRY(const uint64_t tag, Varint());
    Field field;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<Wire>(tag & 7);
    if (tag >> 3 == 0 || tag >> 32 != 0) return Wrong("a field number", Cat(tag >> 3));
    switch (field.wire) {
      case Wire::kVarint: {
        SHARD_TRY(field.value, Varint());
        return field;
      }
      case Wire::kFixed64:
        return Take(field, 8);
      case Wire::kFixed32:
        return Take(field, 4);
      case Wire::kBytes: {
        SHARD_TRY(const uint64_t length, Varint());
        return Take(field, length);
      }
    }
    return Wrong("wire type 0, 1, 2 or 5", Cat(tag & 7));
  }

 private:
  Error Wrong(const std::string& expected, const std::string& found) const {
    return {Code::kCorrupt, Cat(path_, ": SentencePiece model: byte ", offset(), ": expected ",
                                expected, ", found ", found)};
  }
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int i = 0; i < kVarintBytes && !AtEnd(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return value;
    }
    return Wrong("the end of a number", AtEnd() ? "the end of the message" : "more digits");
  }
  Result<Field> Take(Field field, uint64_t length) {
    if (length > bytes_.size() - at_) {
      return Wrong(Cat("at most ", bytes_.size() - at_, " bytes"), Cat(length));
    }
    field.bytes = bytes_.substr(at_, length);
    at_ += length;
    return field;
  }

  const std::string& path_;
  std::string_view bytes_;
  size_t base_, at_ = 0;
};

Result<SentencePiece> ParsePiece(const std::string& path, std::string_view bytes, size_t base) {
  SentencePiece piece;
  MessageReader reader(path, bytes, base);
  while (!reader.AtEnd()) {
    SHARD_TRY(const Field field, reader.Next());
    if (field.number == kText && field.wire == Wire::kBytes) piece.text = field.bytes;
    if (field.number == kScore && field.wire == Wire::kFixed32) {
      piece.score = LoadLe<float>(std::as_bytes(std::span(field.bytes.data(), 4)));
    }
    if (field.number == kType && field.wire == Wire::kVarint) {
      if (field.value == 0 || field.value > kMaxType) {
        return Error{Code::kCorrupt,
                     Cat(path, ": SentencePiece model: byte ", reader.offset(),
                         ": type: expected 1 to ", kMaxType, ", found ", field.value)};
      }
      piece.type = static_cast<uint32_t>(field.value);
    }
  }
  return piece;
}

}  // namespace

Result<std::vector<SentencePiece>> ParseSentencePieces(const std::string& path,
                                                       std::string_view bytes) {
  std::vector<SentencePiece> pieces;
  MessageReader reader(path, bytes, 0);
  while (!reader.AtEnd()) {
    SHARD_TRY(const Field field, reader.Next());
    if (field.number != kPieces || field.wire != Wire::kBytes) continue;
    if (pieces.size() == kMaxPieces) {
      return Error{Code::kCorrupt, Cat(path, ": SentencePiece model: expected at most ", kMaxPieces,
                                       " pieces, found more")};
    }
    SHARD_TRY(SentencePiece piece,
              ParsePiece(path, field.bytes, reader.offset() - field.bytes.size()));
    pieces.push_back(std::move(piece));
  }
  if (!pieces.empty()) return pieces;
  return Error{Code::kCorrupt, Cat(path, ": SentencePiece model: expected pieces, found none")};
}

}  // namespace moepack
